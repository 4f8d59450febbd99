package judge

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// ours tells whether kubehsm filed what its user asks for themselves with a certificate:
// other programs renew certificates too.
func ours(t *trial) (bool, error) {
	if revocation.Used(t.Object.Spec.Extra) == "" {
		return false, nil
	}
	if _, ok := t.Object.Annotations[clusterapi.PresentCertificate]; ok || !errors.Is(t.proof, attest.ErrNone) {
		return true, nil
	}
	token, err := t.cluster.TokenWithKey(t.SPKIHash)
	return token != nil, err
}

// renewal judges what was filed with a certificate of the same user.
func (t *trial) renewal() (Decision, error) {
	if d, done := t.client(Deny); done {
		return d, nil
	}
	for _, g := range t.Subject.Groups {
		if !slices.Contains(t.Object.Spec.Groups, g) {
			return t.says(Deny, ReasonGroups, fmt.Sprintf("it asks for the group %q, which its requester is not in", g))
		}
	}
	if d, done := t.bounds(); done {
		return d, nil
	}
	if d, done := t.invalidAttestation(); done {
		return d, nil
	}
	present, err := t.Present()
	if err != nil {
		return t.says(Deny, ReasonCredential, err.Error())
	}
	same := present != nil && hsm.SameKey(present.PublicKey, t.PublicKey)
	if t.Statement != nil {
		if d, done := t.device(); done {
			return d, nil
		}
		t.Token, err = t.cluster.Token(t.Statement.Serial)
	} else {
		t.Token, err = t.cluster.TokenWithKey(t.SPKIHash)
	}
	if err != nil {
		return t.Decision, err
	}
	if t.Token != nil {
		check, second := t.given, same && t.Token.Spec.Owner != t.Subject.User
		if second {
			check = t.inUse
		}
		if d, done := check(); done {
			return d, nil
		}
		if second {
			return t.says(Person, ReasonOwner, notOwned(t)+": an admin may give the token a second name")
		}
		if d, done := t.spent(present); done {
			return d, nil
		}
	}
	if t.Statement == nil && !same {
		return t.says(Person, ReasonUnproven,
			"its key is not attested, and not that of the certificate that it was filed with")
	}
	if d, done := t.ofDesk(); done {
		return d, nil
	}
	if t.Token == nil && !(same && t.policy.RenewUnrostered) {
		return t.desk(ReasonUnknown, "its key is in no token on the roster: nothing says until when its user may renew")
	}
	return t.says(Approve, ReasonRenewal, "its user renews a certificate that is still valid")
}

// Present is the certificate that the request says it was filed with; nil if it says
// none, an error if it was filed with another.
func (a Asked) Present() (*x509.Certificate, error) {
	text, ok := a.Object.Annotations[clusterapi.PresentCertificate]
	if !ok {
		return nil, nil
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the certificate that it carries is not in base64")
	}
	if sum := sha256.Sum256(der); hex.EncodeToString(sum[:]) != revocation.Used(a.Object.Spec.Extra) {
		return nil, errors.New("the certificate that it carries is not the one that it was filed with")
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("the certificate that it carries: %w", err)
	}
	return cert, nil
}

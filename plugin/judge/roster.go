package judge

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/expiry"
)

// byRoster judges what anybody filed: the attestation says which token it is, the
// roster whose.
func (t *trial) byRoster() (Decision, error) {
	if t.Statement == nil {
		if d, done := t.invalidAttestation(); done && ByJoiner(t.Object) {
			return d, nil
		}
		return t.says(Person, ReasonForeign, "it was filed without a ticket, and nothing proves where its key is")
	}
	token, err := t.cluster.Token(t.Statement.Serial)
	switch {
	case err != nil:
		return t.Decision, err
	case token == nil:
		return t.says(Person, ReasonUnknown, "its token "+t.Statement.Serial+" is not on the roster")
	}
	t.Token = token
	if d, done := t.client(Deny); done {
		return d, nil
	}
	if d, done := t.given(); done {
		return d, nil
	}
	if d, done := t.spent(nil); done {
		return d, nil
	}
	if d, done := t.bounds(); done {
		return d, nil
	}
	if d, done := t.device(); done {
		return d, nil
	}
	if d, done := t.ofDesk(); done {
		return d, nil
	}
	return t.says(Approve, ReasonRoster, "the key is proven to be in the token "+token.Name+", which is its user's")
}

// ByJoiner reports whether the request was filed with a ticket or a join line.
func ByJoiner(obj *certificatesv1.CertificateSigningRequest) bool {
	by := obj.Spec.Username
	return by == clusterapi.JoinerUser || strings.HasPrefix(by, bootstraptoken.UserPrefix)
}

func notOwned(t *trial) string {
	return fmt.Sprintf("the roster says that the token %s is not that of %q", t.Token.Name, t.Subject.User)
}

// NotGiven says why the roster, with the entry token, does not give at now what the request a asks for;
// "" if it does.
func NotGiven(a Asked, token *clusterapi.HardwareToken, now time.Time) string {
	t := &trial{Asked: a, Decision: Decision{Token: token}, now: now}
	if d, refused := t.given(); refused {
		return d.Message
	}
	return ""
}

// given refuses what the roster does not give to the token's owner.
func (t *trial) given() (Decision, bool) {
	refuse := func(reason, message string) (Decision, bool) {
		d, _ := t.says(Deny, reason, message)
		return d, true
	}
	if t.Token.Spec.Owner != t.Subject.User {
		return refuse(ReasonOwner, notOwned(t))
	}
	for _, g := range t.Subject.Groups {
		if !slices.Contains(t.Token.Spec.Groups, g) {
			return refuse(ReasonGroups, fmt.Sprintf("it asks for the group %q, which the roster does not give", g))
		}
	}
	return t.inUse()
}

// granted are the certificates of the token that are valid, or approved for other requests.
func (t *trial) granted() []clusterapi.TokenCertificate {
	return slices.DeleteFunc(t.Token.Status.Granted(t.now), func(c clusterapi.TokenCertificate) bool {
		return c.Request != "" && c.Request == t.Object.UID
	})
}

// until is how long the first of the certificates is still valid, in words.
func (t *trial) until(all []clusterapi.TokenCertificate) string {
	first := slices.MinFunc(all, func(a, b clusterapi.TokenCertificate) int { return a.NotAfter.Compare(b.NotAfter.Time) })
	return span.Of(max(first.NotAfter.Sub(t.now).Truncate(time.Minute), time.Minute))
}

// spent refuses another certificate for a key that has one: requests are no secret, and whoever knows one can file it
// again. The certificate that its user signs in with, nil for none, may have a successor in time.
func (t *trial) spent(present *x509.Certificate) (Decision, bool) {
	mine := slices.DeleteFunc(t.granted(), func(c clusterapi.TokenCertificate) bool { return c.Key != t.SPKIHash })
	if len(mine) == 0 {
		return t.Decision, false
	}
	if present == nil || !hsm.SameKey(present.PublicKey, t.PublicKey) {
		d, _ := t.says(Deny, ReasonKeyUsed, fmt.Sprintf("its key has a certificate that ends in %s: its user may renew that, "+
			"or join with a new key (kubehsm join --restart)", t.until(mine)))
		return d, true
	}
	if from := expiry.RenewableFrom(present.NotBefore, present.NotAfter); t.now.Before(from) {
		d, _ := t.says(Deny, ReasonEarly, fmt.Sprintf("its certificate may be renewed in %s at the earliest",
			span.Of(from.Sub(t.now).Truncate(time.Minute)+time.Minute)))
		return d, true
	}
	return t.Decision, false
}

// inUse refuses what the roster says is over.
func (t *trial) inUse() (Decision, bool) {
	refuse := func(v Verdict, reason, message string) (Decision, bool) {
		d, _ := t.says(v, reason, message)
		return d, true
	}
	spec, granted := t.Token.Spec, t.granted()
	switch {
	case spec.State == clusterapi.Lost || spec.State == clusterapi.Retired:
		return refuse(Deny, ReasonToken,
			fmt.Sprintf("the roster says that the token %s is %s", t.Token.Name, strings.ToLower(string(spec.State))))
	case spec.State == clusterapi.Stock && t.Ticket == "":
		return refuse(Person, ReasonToken,
			fmt.Sprintf("the roster says that the token %s is in stock: nobody has it", t.Token.Name))
	case len(granted) >= clusterapi.MaxLive:
		return refuse(Deny, ReasonTooMany, fmt.Sprintf("the token %s has %d certificates, and may have %d at a time: the next one "+
			"of them ends in %s", t.Token.Name, len(granted), clusterapi.MaxLive, t.until(granted)))
	case spec.Horizon == nil:
		return t.Decision, false
	}
	switch left := spec.Horizon.Sub(t.now); {
	case left <= 0:
		return refuse(Deny, ReasonHorizon, "the horizon of the token "+t.Token.Name+" on the roster has passed")
	case t.longer(left):
		words := fmt.Sprintf("it asks for %s, and the horizon of the token %s on the roster is in %s", t.lifetimeWords(),
			t.Token.Name, span.Of(left.Truncate(time.Minute)))
		if offered := (left - time.Minute).Truncate(time.Minute); offered >= csr.MinExpiration {
			words += offer + offered.String()
		}
		return refuse(Deny, ReasonHorizon, words)
	}
	return t.Decision, false
}

// offer precedes, in the message of a denial, the lifetime that another request may ask for.
const offer = "; it may ask for "

// Offered is the lifetime for which a request that was denied with that reason and message may be filed again, 0 if
// there is none.
func Offered(reason, message string) time.Duration {
	_, text, _ := strings.Cut(message, offer)
	d, err := time.ParseDuration(text)
	if reason != ReasonHorizon || err != nil || d < csr.MinExpiration {
		return 0
	}
	return d
}

package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
)

// Asked is a request as it was read.
type Asked struct {
	*csr.RequestInfo
	Object *certificatesv1.CertificateSigningRequest
}

// Read reads the PKCS#10 of a request.
func Read(obj *certificatesv1.CertificateSigningRequest) (Asked, error) {
	info, err := csr.InspectRequest(obj.Spec.Request)
	return Asked{info, obj}, err
}

// Attested is what the attestation in the request proves: [attest.ErrNone] if there
// is none.
func (a Asked) Attested(by attest.Verifier) (attest.Statement, error) {
	carried, err := attest.FromExtensions(a.Extensions)
	if err != nil {
		return attest.Statement{}, err
	}
	return by.Verify(carried, a.PublicKey)
}

// Mismatches are what of the request is not what the ticket allows, clauses.
func (a Asked) Mismatches(t ticket.Terms) []string {
	var wrong []string
	differs := func(what, asked, allowed string) {
		wrong = append(wrong, fmt.Sprintf("it asks for the %s %q, its ticket is for %q", what, asked, allowed))
	}
	if a.Subject.User != t.User {
		differs("user", a.Subject.User, t.User)
	}
	if !(csr.Subject{User: t.User, Groups: a.Subject.Groups}).Equal(csr.Subject{User: t.User, Groups: t.Groups}) {
		differs("groups", strings.Join(a.Subject.Groups, ", "), strings.Join(t.Groups, ", "))
	}
	if names := a.AlternativeNames(); len(names) > 0 {
		wrong = append(wrong, "it asks for alternative names, its ticket is for none: "+strings.Join(names, ", "))
	}
	if signer := cmp.Or(t.Signer, csr.ClientSigner); a.Object.Spec.SignerName != signer {
		differs("signer", a.Object.Spec.SignerName, signer)
	}
	for _, u := range a.otherUsages() {
		wrong = append(wrong, fmt.Sprintf("it asks for the usage %q, tickets are for clients", u))
	}
	if t.Lifetime != 0 && a.longer(t.Lifetime) {
		differs("lifetime", a.lifetimeWords(), span.Of(t.Lifetime))
	}
	return wrong
}

// otherUsages are those beside a client's, whoever signs.
func (a Asked) otherUsages() []certificatesv1.KeyUsage {
	return slices.DeleteFunc(slices.Clone(a.Object.Spec.Usages), func(u certificatesv1.KeyUsage) bool {
		return u == certificatesv1.UsageClientAuth || u == certificatesv1.UsageDigitalSignature ||
			u == certificatesv1.UsageKeyEncipherment
	})
}

// Lifetime is what it asks for; 0 leaves it to the signer.
func (a Asked) Lifetime() time.Duration {
	if n := a.Object.Spec.ExpirationSeconds; n != nil {
		return time.Duration(*n) * time.Second
	}
	return 0
}

func (a Asked) longer(limit time.Duration) bool { return a.Lifetime() == 0 || a.Lifetime() > limit }

func (a Asked) lifetimeWords() string {
	if d := a.Lifetime(); d != 0 {
		return span.Of(d)
	}
	return "as long as the signer gives"
}

// KeyMismatches are what of the attested key is not as the ticket asks, clauses.
func KeyMismatches(t ticket.Terms, s attest.Statement) []string {
	var wrong []string
	if t.Serial != "" && s.Serial != t.Serial {
		wrong = append(wrong, fmt.Sprintf("its key is in the token %q, its ticket is for %q", s.Serial, t.Serial))
	}
	for _, p := range []struct {
		bit  ticket.Policy
		kept bool
		says string
	}{
		{ticket.TouchAlways, s.Touch == hsm.TouchAlways, "touch " + s.Touch.String()},
		{ticket.TouchCached, s.Touch >= hsm.TouchCached, "touch " + s.Touch.String()},
		{ticket.PINAlways, s.PIN == hsm.PINAlways, "PIN " + s.PIN.String()},
		{ticket.PINOnce, s.PIN >= hsm.PINOnce, "PIN " + s.PIN.String()},
	} {
		if t.Policy.Has(p.bit) && !p.kept {
			wrong = append(wrong, fmt.Sprintf("its ticket asks for %s, its key has %s", p.bit, p.says))
		}
	}
	return wrong
}

package enroll

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// held is a slot with a key and a certificate, as change makes it.
func held(t *testing.T, slot, user string, change func(*x509.Certificate)) hsm.Slot {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: user, Organization: []string{"staff"}},
		NotBefore:    time.Now().Add(-2 * time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	return hsm.Slot{ID: slot, URI: hsm.URI{Scheme: hsm.SchemePIV, Serial: "1", Slot: slot}, Certificate: cert,
		Key: &hsm.Key{Algorithm: hsm.ECDSAP256, Public: key.Public()}}
}

// TestAdoptables: of the certificates on a token, those that can sign in are told from the
// others, and each of the others with its reason.
func TestAdoptables(t *testing.T) {
	good := held(t, "9a", "jane", nil)
	hidden := held(t, "", "joe", nil)
	hidden.Key, hidden.Label = nil, "joe's"
	swapped := held(t, "9d", "jim", nil)
	swapped.Key = good.Key
	slots := []hsm.Slot{good, hidden, swapped,
		held(
			t,
			"9c",
			"mail",
			func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection} },
		),
		held(t, "9e", "old", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }),
		held(t, "82", "CA", func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }),
		{URI: hsm.URI{Scheme: hsm.SchemePIV, Serial: "1", Slot: "83"}}}
	fit, unfit := Adoptables(slots, nil)
	var users []string
	for _, a := range fit {
		users = append(users, a.Certificate.Subject().User)
	}
	if got := strings.Join(users, ","); got != "jane,joe" {
		t.Errorf("fit are %s", got)
	}
	said := ""
	for _, a := range unfit {
		said += a.Unfit() + "\n"
	}
	for _, want := range []string{`"jim" in slot 9d: it is for another key`, `"mail" in slot 9c: it is not allowed for client auth`,
		`"old" in slot 9e: it expired on`} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if len(unfit) != 3 {
		t.Errorf("unfit are\n%s", said)
	}
	all := noneAdoptable(hsm.URI{}, unfit)
	if !errors.Is(all, hsm.ErrNoCertificate) || !strings.Contains(hint.Of(all), "slot 9e") {
		t.Errorf("%v, %q", all, hint.Of(all))
	}
	one := noneAdoptable(hsm.URI{Scheme: hsm.SchemePIV, Serial: "1", Slot: "9c"}, unfit)
	if !strings.HasPrefix(one.Error(), "the key has") || !strings.Contains(hint.Of(one), `"mail" in slot 9c`) ||
		strings.Contains(hint.Of(one), "slot 9e") {
		t.Errorf("of one key: %v, %q", one, hint.Of(one))
	}
	both := severalAdoptable(fit)
	if !errors.Is(both, ErrSeveralCertificates) || !strings.Contains(hint.Of(both), "--use-certificate --key 'piv:serial=1;slot=9a' (jane, ") {
		t.Errorf("%v, %q", both, hint.Of(both))
	}
}

// TestTakeAdoptable: the certificate says who it is for.
func TestTakeAdoptable(t *testing.T) {
	s := held(t, "9a", "jane", nil)
	a := Adoptable{Slot: s, Certificate: csr.WithChain(s.Certificate, nil)}
	for user, ok := range map[string]bool{"": true, "jane": true, "joe": false} {
		o := enrolling.Options{User: user, Groups: []string{"admins"}}
		if err := takeAdoptable(&o, a); (err == nil) != ok {
			t.Errorf("%q: %v", user, err)
		} else if ok && (o.User != "jane" || strings.Join(o.Groups, ",") != "staff" || o.Key.Slot != "9a") {
			t.Errorf("%q: %+v", user, o)
		}
	}
}

// TestAdoptUntrusted: where the authorities that the API server accepts may be read, a certificate of none of them
// is refused in the review, and by the step that would use it. Where they may not, or nothing answers, it is not.
func TestAdoptUntrusted(t *testing.T) {
	w := scene(t)
	held := w.Enroll("held", "jane", "dev")
	chain, err := w.Env.Enrollments().Certificate(held)
	must.OK(t, err)
	card, err := w.Env.Drivers.Open(t.Context(), held.Key.TokenOnly())
	if err == nil {
		err = errors.Join(card.StoreCertificate(t.Context(), held.Key, chain[0], hsmtest.Typing(t, w.Card.PIN())), card.Lock())
		card.Close()
	}
	must.OK(t, err)
	review := func(untrusted bool) Review {
		t.Helper()
		rev, err := NewEnroller(w.Env).Review(t.Context(), enrolling.Options{Adopt: true, Name: "corp-hsm"})
		if err != nil || rev.Certificate == nil || errors.Is(rev.Refused, csr.ErrUntrusted) != untrusted {
			t.Errorf("review %+v, %v", rev, err)
		}
		return rev
	}
	review(false)
	w.Server.Put("/api/v1/namespaces/kube-system/configmaps", map[string]any{
		"metadata": map[string]string{"name": "extension-apiserver-authentication"},
		"data":     map[string]string{"client-ca-file": string(held.Cluster.CAData)}})
	if rev := review(true); !strings.Contains(rev.Refused.Error(), `issued by "CN=kubernetes", and no authority`) {
		t.Errorf("it says %v", rev.Refused)
	}
	_, err = NewEnroller(w.Env).Enroll(t.Context(), enrolling.Options{Adopt: true, Name: "corp-hsm"},
		hsmtest.Typing(t, w.Card.PIN()), nil)
	if !errors.Is(err, csr.ErrUntrusted) || !strings.Contains(hint.Of(err), "--client-ca-file") {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
	w.Server.Forbid("get configmaps")
	review(false)
	w.Server.Gone()
	if rev := review(false); !strings.Contains(strings.Join(rev.Notes, "\n"), "does not answer") {
		t.Errorf("without an answer: %q", rev.Notes)
	}
}

// TestAdoptNothing: a token without a certificate is not enrolled by its certificate, and
// nobody is asked for a PIN.
func TestAdoptNothing(t *testing.T) {
	e, _ := flowtest.Env(t, "blue")
	for _, o := range []enrolling.Options{{Adopt: true}, {Adopt: true, User: "jane"}} {
		if _, err := NewEnroller(e).Review(t.Context(), o); !errors.Is(err, hsm.ErrNoCertificate) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := enrolling.Options{Adopt: true, ChainFile: "no such file"}
	if _, err := NewEnroller(e).Review(t.Context(), o); !strings.Contains(hint.Of(err), "--chain") {
		t.Errorf("a chain that is not there: %v", err)
	}
}

// TestFullToken: an approved certificate for which the token has no room is kept in the state
// folder, and the enrollment is finished.
func TestFullToken(t *testing.T) {
	w := scene(t)
	w.Card.Fail(hsmtest.OpStoreCertificate, hsm.ErrFull)
	r, err := NewEnroller(w.Env).Enroll(t.Context(), enrolling.Options{Name: "prod-hsm", Timeout: 2 * time.Second,
		AcceptForecast: true}, hsmtest.NewScript(t, hsmtest.PIN(w.Card.PIN())), nil)
	if err != nil ||
		!strings.Contains(strings.Join(r.Notes, "\n"), "the token is full; the certificate is kept in the state folder") {
		t.Errorf("%v, notes %q", err, r.Notes)
	}
	slots, err := hsm.ReadSlots(t.Context(), w.Env.Drivers, r.Key.TokenOnly())
	if err != nil || len(slots) != 1 || slots[0].Certificate != nil {
		t.Errorf("on the token: %+v, %v", slots, err)
	}
}

package cli

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

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

func TestConsentPolicy(t *testing.T) {
	b := newBench(t)
	slot, _ := b.keyWithCertificate()
	b.enrolled("prod-hsm", "https://api.example:6443", slot)
	b.ask = prompt.None()
	if out := b.ok("consent", "show"); !strings.HasPrefix(out,
		"prod-hsm (api.example:6443): session: signing in is enough\nSigned by the key on ") {
		t.Errorf("%q", out)
	}
	for _, args := range [][]string{{"prod-hsm"}, {"prod-hsm", "--policy", "sometimes"}, {"prod-hsm", "--policy", "rules"},
		{"prod-hsm", "--policy", "writes", "--rule", "verbs=get"},
		{"prod-hsm", "--rule", ""}, {"prod-hsm", "--rule", "verbs="}, {"prod-hsm", "--rule", "verb=get"}, {"prod-hsm", "--rule", "verbs=destroy"}, {}} {
		b.fails(2, "", append([]string{"consent", "set"}, args...)...)
	}
	b.fails(1, "no such enrollment", "consent", "set", "other", "--policy", "writes", "--yes")
	b.fails(5, "with --yes once you have seen", "consent", "set", "prod-hsm", "--policy", "writes")
	b.ask = hsmtest.NewScript(t, hsmtest.No())
	b.fails(130, "nothing was changed", "consent", "set", "prod-hsm", "--policy", "writes")
	script := hsmtest.NewScript(t, hsmtest.Yes(), hsmtest.PIN(testPIN))
	b.ask = script
	if out := b.ok("consent", "set", "prod-hsm", "--policy", "writes"); !strings.Contains(out, "writes: everything but reads") {
		t.Errorf("%q", out)
	}
	if q := script.Prompts()[0].Confirm; q == nil || !strings.Contains(q.Question, "api.example:6443") {
		t.Errorf("the question does not name the host: %+v", script.Prompts())
	}
	b.ask = nil
	// nothing to change, nothing to ask
	if out := b.ok("consent", "set", "prod-hsm", "--policy", "writes"); !strings.Contains(out, "writes") {
		t.Errorf("%q", out)
	}
	b.ask = hsmtest.NewScript(t, hsmtest.PIN(testPIN))
	b.ok("consent", "set", "prod-hsm", "--yes", "--rule", "verbs=delete,patch namespaces=prod", "--rule",
		"resources=secrets,pods/exec dry-run")
	if out := b.ok("consent", "show"); !strings.Contains(out,
		"\n  verbs=delete,patch namespaces=prod\n  resources=secrets,pods/exec dry-run\n") {
		t.Errorf("%q", out)
	}
	doc := document(t, b.ok("consent", "show", "-o", "json"))
	if doc["policy"] != "rules" || len(doc["rules"].([]any)) != 2 || doc["server"] != "https://api.example:6443" {
		t.Errorf("%v", doc)
	}
	b.ask = hsmtest.NewScript(t, hsmtest.PIN(testPIN))
	b.ok("consent", "set", "prod-hsm", "--policy", "session", "--yes")
	if doc := document(t, b.ok("consent", "show", "-o", "json")); doc["policy"] != "session" || doc["rules"] != nil {
		t.Errorf("%v", doc)
	}
}

// TestAuditVerifies: a signature on record is checked against the certificate.
func TestAuditVerifies(t *testing.T) {
	b := newBench(t)
	key, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	hash, err2 := hsm.Fingerprint(key.Public())
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jane"},
		NotAfter: time.Now().Add(time.Hour)}
	der, err3 := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	cert, err4 := x509.ParseCertificate(der)
	dirs, err5 := home.FromEnv(func(k string) string { return b.env[k] })
	must.OK(t, errors.Join(err1, err2, err3, err4, err5, dirs.Prepare()))
	e := enrollment.Enrollment{Name: "prod", Key: hsm.URI{Scheme: hsm.SchemePKCS11, Token: "t"}, KeyHash: hash,
		Cluster: cluster.Cluster{Server: "https://a:1"}}
	store := enrollment.NewStore(dirs)
	must.OK(t, errors.Join(store.Save(e), store.SaveCertificate(e, []*x509.Certificate{cert})))
	r := consent.Parse("DELETE", "/api/v1/nodes/n", nil, false)
	text, err := consent.Statement{Time: time.Now(), Enrollment: "prod", Request: r}.Text()
	must.OK(t, err)
	signature, err := consent.Sign(key, text)
	must.OK(t, err)
	l, err := audit.Open(audit.Path(dirs))
	must.OK(t, err)
	defer l.Close() // written lines are whole
	good := audit.Record{Event: audit.Consent, Outcome: audit.Granted, Reason: "touch", Enrollment: "prod", Key: hash,
		Request: r.String(), Statement: text, Signature: signature}
	other, changed, unknown := good, good, good
	other.Request = `delete nodes "m"`
	changed.Statement = strings.Replace(text, `"name":"n"`, `"name":"m"`, 1)
	changed.Request = `delete nodes "m"`
	unknown.Enrollment = "gone"
	unknown.Statement = strings.Replace(text, `"prod"`, `"gone"`, 1)
	for _, r := range []audit.Record{good, other, changed, unknown} {
		must.OK(t, l.Write(r))
	}
	lines := strings.Split(strings.TrimSpace(b.ok("audit")), "\n")[1:]
	for i, want := range []string{`delete nodes "n", touch, signed`, "WRONG SIGNATURE", "WRONG SIGNATURE",
		"signature not checked"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("%q, want %q", lines[i], want)
		}
	}
}

// TestConsentTakesThePIN: no policy is set without the PIN of the enrollment's own key, whatever flags say, and
// the command shows first what the key signs. --pin-fd gives the PIN.
func TestConsentTakesThePIN(t *testing.T) {
	b := newBench(t)
	slot, _ := b.keyWithCertificate()
	b.enrolled("prod-hsm", "https://api.example:6443", slot)
	holds := func(policy string) {
		t.Helper()
		if doc := document(t, b.ok("consent", "show", "-o", "json")); doc["policy"] != policy || doc["signed"] != true {
			t.Errorf("the policy is %v, want %s", doc, policy)
		}
	}
	b.ask = prompt.None()
	for _, policy := range []string{"always", "rules --rule verbs=get"} {
		b.fails(5, "The key signs:\nRecord:  of the enrollment prod-hsm\nServer:  \"https://api.example:6443\"",
			append([]string{"consent", "set", "prod-hsm", "--yes", "--policy"}, strings.Fields(policy)...)...)
	}
	b.ask = hsmtest.NewScript(t, hsmtest.PIN("000000"), hsmtest.Cancel())
	b.fails(130, "", "consent", "set", "prod-hsm", "--policy", "writes", "--yes")
	holds("session")
	b.ask = hsmtest.NewScript(t, hsmtest.PIN(testPIN))
	b.ok("consent", "set", "prod-hsm", "--policy", "writes", "--yes")
	holds("writes")

	dirs, err := home.FromEnv(func(k string) string { return b.env[k] })
	must.OK(t, err)
	store := enrollment.NewStore(dirs)
	e, err := store.Load("prod-hsm")
	if err == nil {
		e.Policy = consent.Session // somebody edits the file
		err = store.Save(e)
	}
	must.OK(t, err)
	if out := b.ok("consent", "show"); !strings.Contains(out, "it differs in: Policy: it is not served.") ||
		!strings.Contains(out, "To sign it with this policy: `kubehsm consent set prod-hsm --policy session`") {
		t.Errorf("%q", out)
	}
	// Another token's PIN does not do.
	other := b.fake.Add(hsmtest.FakeOptions{Label: "other", PIN: "111111"})
	tok, err := b.fake.Open(t.Context(), other.Info().URI())
	must.OK(t, err)
	foreign, err := tok.Generate(t.Context(), hsm.GenerateOptions{Label: "prod"}, hsmtest.Typing(t, "111111"))
	must.OK(t, err)
	stolen := b.enrolled("stolen", "https://api.example:6443", slot)
	stolen.Key, stolen.Policy = foreign.URI, consent.Writes
	must.OK(t, store.Save(stolen))
	b.ask = hsmtest.NewScript(t)
	b.fails(1, hsm.ErrKeyMismatch.Error(), "consent", "set", "stolen", "--policy", "session", "--yes")
}

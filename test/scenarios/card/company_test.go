//go:build linux && cgo

package card

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/p11server"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// company is an authority with an intermediate, as companies have.
type company struct {
	root, issuer       *x509.Certificate
	rootKey, issuerKey *ecdsa.PrivateKey
}

func newCompany(t *testing.T) *company {
	t.Helper()
	c := &company{}
	c.root, c.rootKey = authority(t, "Example Corp Root", nil, nil)
	c.issuer, c.issuerKey = authority(t, "Example Corp People", c.root, c.rootKey)
	return c
}

// authority is one that parent certifies, or a root.
func authority(
	t *testing.T,
	name string,
	parent *x509.Certificate,
	by *ecdsa.PrivateKey,
) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(5, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	return cert, key
}

// issue is a certificate of somebody's key, for a year.
func (c *company) issue(t testing.TB, who string, key crypto.Signer, uses ...x509.ExtKeyUsage) []byte {
	t.Helper()
	return c.issueUntil(t, time.Now().AddDate(1, 0, 0), who, key, uses...)
}

func (c *company) issueUntil(t testing.TB, end time.Time, who string, key crypto.Signer, uses ...x509.ExtKeyUsage) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:   pkix.Name{CommonName: who, Organization: []string{"staff"}},
		NotBefore: end.AddDate(-2, 0, 0), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: uses}
	der, err := x509.CreateCertificate(rand.Reader, template, c.issuer, key.Public(), c.issuerKey)
	must.OK(t, err)
	return der
}

func encoded(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// fill has yubico-piv-tool put a key with its certificate on the card.
func fill(t testing.TB, slot string, key crypto.Signer, certificate []byte, more ...string) {
	t.Helper()
	if key != nil {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		must.OK(t, err)
		pivTool(t, encoded("PRIVATE KEY", der), append(more, "-a", "import-key", "-s", slot)...)
	}
	pivTool(t, encoded("CERTIFICATE", certificate), "-a", "import-certificate", "-s", slot)
}

func pivTool(t testing.TB, in []byte, args ...string) {
	t.Helper()
	if in != nil {
		file := filepath.Join(t.TempDir(), "in.pem")
		must.OK(t, os.WriteFile(file, in, 0o600))
		args = append(args, "-i", file)
	}
	if out, err := exec.Command(need.Program(t, "yubico-piv-tool"), args...).CombinedOutput(); err != nil {
		t.Fatalf("yubico-piv-tool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// written counts the commands that the card has done and that write to it: PUT DATA, GENERATE, MOVE
// KEY, IMPORT and those of its secrets.
func written(card *vcard.Card) (n int) {
	for _, e := range card.Log() {
		if slices.Contains([]byte{0xdb, 0x47, 0xf6, 0xfe, 0xff, 0x24, 0x2c}, e.INS) && e.SW == 0x9000 {
			n++
		}
	}
	return n
}

// TestCompanyCard: a card with an RSA key and a certificate of a company's authority, whose
// management key its holder does not know, signs in with one command and one PIN where the API
// server accepts that authority. Nothing is filed, and nothing is written to the card.
func TestCompanyCard(t *testing.T) {
	corp := newCompany(t)
	cluster := controlplane.StartForTest(t, controlplane.Options{ClientCAs: encoded("CERTIFICATE", corp.root.Raw)})
	_, err := cluster.Admin(
		t.Context(),
		"",
		"create",
		"clusterrolebinding",
		"staff",
		"--clusterrole=view",
		"--group=staff",
	)
	must.OK(t, err)
	t.Run("chain on the card", func(t *testing.T) {
		p := newHolder(t, corp, cluster, true)
		p.signsIn("piv:serial=7654321", pinPrompt, 1)
	})
	t.Run("chain in a file, PIN policy always", func(t *testing.T) {
		p := newHolder(t, corp, cluster, false, "--pin-policy=always")
		refused, err := p.Kubehsm(t.Context(), "enroll", "--use-certificate", "--key", "piv:serial=7654321;slot=9a", "--yes")
		must.OK(t, err)
		if refused.Code == 0 || !strings.Contains(refused.Stderr, "--chain FILE") {
			t.Errorf("without the chain: %s", refused)
		}
		p.signsIn("piv:serial=7654321", pinPrompt, 1, "--chain", p.chain(corp))
	})
	t.Run("several", func(t *testing.T) {
		p := newHolder(t, corp, cluster, false)
		p.several(corp)
	})
	t.Run("OpenSC", func(t *testing.T) {
		p := newHolder(t, corp, cluster, false)
		must.OK(t, os.WriteFile(filepath.Join(p.Home, "config.yaml"),
			[]byte("onlyModules: true\nmodules:\n- path: "+p11server.Library(t, "opensc-pkcs11.so")+"\n"), 0o600))
		refused, err := p.Kubehsm(t.Context(), "enroll", "--yes")
		must.OK(t, err)
		if refused.Code == 0 || !strings.Contains(refused.Stderr, "does not accept certificates of this issuer") ||
			!strings.Contains(refused.Stderr, "--chain FILE") {
			t.Errorf("without the chain: %s", refused)
		}
		p.signsIn("pkcs11:manufacturer=piv_II", "needs its PIN", 1, "--chain", p.chain(corp))
		p.ok(p.Kubehsm(t.Context(), "agent", "stop"))
		// OpenSC's logout sends the card nothing: pcscd powers the card off when nobody uses it.
		poll.Until(t, "the card is locked", func() bool { return !p.card.Verified() })
	})
}

// several: of a card with two certificates to sign in with, one that has expired and one that is for mail, the person
// chooses; each of the others is told with its reason, by the commands and by the terminal UI.
func (p *person) several(corp *company) {
	t, old := p.t, time.Now().AddDate(0, 0, -7)
	t.Helper()
	const mgm = "--key=0a0b0c0d0e0f070801020304050607080102030405060709"
	keys := map[string]crypto.Signer{}
	for _, slot := range []string{"9d", "9e"} {
		key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		must.OK(t, err)
		keys[slot] = key
	}
	pivTool(t, nil, mgm, "-a", "set-mgm-key", "-n", "010203040506070801020304050607080102030405060708")
	fill(t, "9d", keys["9d"], corp.issue(t, "admin@example.com", keys["9d"], x509.ExtKeyUsageClientAuth))
	fill(t, "9e", keys["9e"], corp.issueUntil(t, old, "old@example.com", keys["9e"], x509.ExtKeyUsageClientAuth))
	chain := p.chain(corp)
	says := func(words []string, args ...string) {
		t.Helper()
		res, err := p.Kubehsm(t.Context(), args...)
		must.OK(t, err)
		for _, want := range words {
			if !strings.Contains(res.Stdout+res.Stderr, want) {
				t.Errorf("%q is not in %s", want, res)
			}
		}
	}
	expired := `"old@example.com" in slot 9e: it expired on ` + old.UTC().Format(time.DateOnly)
	mail := `"jane's mail" in slot 9c: it is not allowed for client authentication`
	says([]string{"several certificates", "--use-certificate --key 'piv:serial=7654321;slot=9a' (jane.doe@example.com",
		"slot=9d' (admin@example.com"}, "enroll", "--token", "piv:serial=7654321", "--chain", chain, "--yes")
	says([]string{"the key has no certificate to sign in with", expired}, "enroll", "--use-certificate", "--key",
		"piv:serial=7654321;slot=9e", "--chain", chain, "--yes")
	says([]string{"jane.doe@example.com, issued by", "admin@example.com, issued by", expired, mail}, "doctor", "--offline", "--all")

	s := p.terminal(p.Binary, "enroll", "--token", "piv:serial=7654321", "--chain", chain, "--use-certificate", "--key",
		"piv:serial=7654321;slot=9d")
	s.WaitFor("admin@example.com, in staff; by the certificate on the token", "slot 9d, ecdsa-p384, which is there", "Begin? [Y/n")
	s.Type("\r")
	s.WaitFor(pinPrompt)
	s.Type(ownPIN + "\r")
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	p.usable()

	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
	fill(t, "82", nil, corp.issuer.Raw) // the terminal UI takes no file
	p.kubectl("config", "use-context", "corp")
	p.ok(p.Kubehsm(t.Context(), "unenroll", "corp-hsm", "--yes"))
	p.onlyCard()
	s = term.Run(t, term.Options{Path: p.Binary, Dir: p.Dir, Env: p.Env(), Secrets: p.hidden, Columns: 80, Rows: 24})
	s.WaitFor("several certificates to sign in with", "Slot 9a", "c use its certificate")
	s.Press(term.Down)
	s.WaitFor("Its certificate cannot sign in: it is not allowed for client")
	t.Logf("the choice:\n%s", s.Screen())
	s.Type("c") // without effect here
	s.Press(term.Up)
	s.WaitGone("Its certificate cannot sign in")
	s.Type("c")
	s.WaitFor("Who      jane.doe@example.com", "rsa-2048", "enter enroll")
	s.Press(term.Enter)
	lab.Fill(s, "PIV PIN of YubiKey 5", "PIV PIN", ownPIN)
	s.WaitFor("Enrolled: authenticated as jane.doe@example.com")
	s.Type("q")
	if code := s.Exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.usable()
	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
}

// onlyCard takes the other tokens away.
func (p *person) onlyCard() {
	soft, err := filepath.Glob(filepath.Join(p.Soft.Tokens, "*"))
	must.OK(p.t, err)
	for _, path := range soft {
		must.OK(p.t, os.RemoveAll(path))
	}
}

// newHolder is a person with such a card, and with a context that has no credential. With chain, the
// issuer is on the card; more are flags of the import of the key.
func newHolder(t *testing.T, corp *company, cluster *controlplane.Cluster, chain bool, more ...string) *person {
	t.Helper()
	p := newPersonAt(t, vcard.Config{Firmware: [3]byte{5, 4, 3}, Serial: 7654321}, cluster)
	p.hidden = []string{ownPIN}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	fill(t, "9a", key, corp.issue(t, "jane.doe@example.com", key, x509.ExtKeyUsageClientAuth), more...)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	fill(t, "9c", other, corp.issue(t, "jane's mail", other, x509.ExtKeyUsageEmailProtection))
	if chain {
		fill(t, "82", nil, corp.issuer.Raw)
	}
	pivTool(t, nil, "-a", "change-pin", "-P", vcard.DefaultPIN, "-N", ownPIN)
	pivTool(t, nil, "-a", "change-puk", "-P", vcard.DefaultPUK, "-N", ownPUK)
	pivTool(t, nil, "-a", "set-mgm-key", "-n", "0a0b0c0d0e0f070801020304050607080102030405060709")
	must.OK(t, os.Remove(p.Kubeconfig))
	p.kubectl("config", "set-cluster", "corp", "--server", cluster.Server(), "--certificate-authority", cluster.CAFile(),
		"--embed-certs")
	p.kubectl("config", "set-context", "corp", "--cluster", "corp")
	p.kubectl("config", "use-context", "corp")
	return p
}

// chain is a file of the chain, as the company hands it out.
func (p *person) chain(corp *company) string {
	file := filepath.Join(p.Dir, "chain.pem")
	must.OK(p.t, os.WriteFile(file, encoded("CERTIFICATE", corp.issuer.Raw), 0o600))
	return file
}

// signsIn enrolls the certificate on the card and uses it; prompt asks for the PIN that often.
func (p *person) signsIn(token, prompt string, times int, more ...string) {
	t := p.t
	t.Helper()
	before := written(p.card)
	said, err := p.Kubehsm(t.Context(), "doctor", "--offline")
	must.OK(t, err)
	if !strings.Contains(said.Stdout, "jane.doe@example.com, issued by CN=Example Corp People") {
		t.Errorf("doctor says\n%s", said.Stdout)
	}
	s := p.terminal(p.Binary, append([]string{"enroll", "--token", token}, more...)...)
	s.WaitFor("jane.doe@example.com, in staff; by the certificate on the token, issued by CN=Example Corp People",
		"no request is filed", "Begin? [Y/n")
	s.Type("\r")
	for range times {
		s.WaitFor(prompt)
		s.Type(ownPIN + "\r")
	}
	if code := s.Exit(); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.Output())
	}
	if n := strings.Count(string(s.Raw()), prompt); n != times {
		t.Errorf("the PIN was asked for %d times:\n%s", n, s.Output())
	}
	p.usable()
	// As after the issuer's next certificate: the chain of a file is on record.
	p.ok(p.KubehsmPIN(t.Context(), ownPIN, "enroll", "--name", "corp-hsm", "--yes"))
	if after := written(p.card); after != before {
		t.Errorf("the card has done %d commands that write, before %d", after, before)
	}
	res, err := p.Kubehsm(t.Context(), "certificate", "renew", "corp-hsm", "--yes")
	must.OK(t, err)
	if res.Code == 0 || !strings.Contains(res.Stderr, "CN=Example Corp People") ||
		!strings.Contains(res.Stderr, "kubehsm enroll --name corp-hsm") {
		t.Errorf("a renewal says %s", res)
	}
	p.ok(p.Kubehsm(t.Context(), "agent", "lock"))
}

// usable tells that kubectl works, and that no request was filed for that.
func (p *person) usable() {
	t := p.t
	t.Helper()
	if out := p.kubectl("get", "namespaces", "-o", "name"); !strings.Contains(out, "namespace/default") {
		t.Errorf("kubectl sees %q", out)
	}
	if out, err := p.Cluster.Admin(t.Context(), "", "get", "csr", "-o", "name"); err != nil || out != "" {
		t.Errorf("requests: %q, %v", out, err)
	}
}

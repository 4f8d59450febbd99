//go:build linux

package scenarios

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/badlib"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// TestForeignToken: keys and certificates that pkcs11-tool has put on a token sign in, through a library whose token
// is never writable, whether the library says so or not, and with a PIN that is typed on a PIN pad.
func TestForeignToken(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	for i, kind := range []string{"rsa-2048", "rsa-3072", "rsa-4096", "ecdsa-p384"} {
		u.fill(t, fmt.Sprintf("%02x", i+1), kind, foreignKey(t, kind))
	}
	u.write(t, "05", "bare", foreignKey(t, "ecdsa-p384"), nil)
	library := badlib.Make(t, "foreign")["foreign"]
	must.OK(t, os.WriteFile(filepath.Join(u.Home, "config.yaml"), fmt.Appendf(nil, "onlyModules: true\nmodules:\n- path: %s\n"+
		"  env: {SOFTHSM2_CONF: %s, %s: %s, %s: %q}\n", library, u.Soft.Conf, badlib.Real, u.Soft.Module, badlib.TypedPIN,
		lab.PIN), 0o600))
	whole := func() []byte { // without token.object, where SoftHSM notes logins
		t.Helper()
		out, err := exec.Command("sh", "-c", "find "+u.Soft.Tokens+" -name '*-*.object' | sort | xargs sha256sum").Output()
		must.OK(t, err)
		return out
	}
	before := whole()
	several := u.ran(u.Kubehsm(t.Context(), "enroll", "--use-certificate", "--yes"))
	if several.Code == 0 || !strings.Contains(several.Stderr, "several certificates to sign in with") ||
		!strings.Contains(several.Stderr, "(rsa-4096, issued by") || strings.Contains(several.Stderr, "bare") {
		t.Errorf("with several certificates: %s", several)
	}
	for i, tc := range []struct {
		kind, way string
		pad       bool
	}{{"rsa-2048", "protected", false}, {"rsa-3072", "no-writes", false}, {"rsa-4096", "no-writes", false},
		{"ecdsa-p384", "protected", false}, {"rsa-2048", "protected pad", true}} {
		t.Run(tc.kind+", "+tc.way, func(t *testing.T) {
			u := u.in(t)
			badlib.Do(t, library, strings.Fields(tc.way)...)
			name := fmt.Sprintf("foreign-%d", i)
			line := []string{"enroll", "--use-certificate", "--key", "pkcs11:token=" + lab.Token + ";object=" + tc.kind, "--name", name,
				"--context", lab.Context}
			s := u.terminal(u.Binary, line...)
			s.WaitFor(tc.kind+", in "+lab.DevelopersGroup+"; by the certificate on the token", tc.kind+", which is there", "Begin?")
			s.Type("\r")
			if tc.pad {
				s.WaitFor("on the reader of token")
			} else {
				s.Answer(pinPrompt, lab.PIN)
			}
			if code := s.Exit(); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, s.Output())
			}
			if strings.Contains(string(s.Raw()), pinPrompt) == tc.pad {
				t.Errorf("a PIN is asked for where there is a PIN pad: %t\n%s", tc.pad, s.Output())
			}
			if out := u.kubectl("--context", name, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != tc.kind {
				t.Errorf("kubectl is %q", out)
			}
			u.ok(u.Kubehsm(t.Context(), "agent", "lock"))
		})
	}
	for _, way := range []string{"protected", "no-writes"} {
		t.Run("a request for a key that is there, "+way, func(t *testing.T) {
			u := u.in(t)
			badlib.Do(t, library, way)
			s := u.terminal(u.Binary, "enroll", "--key", "pkcs11:token="+lab.Token+";object=bare", "--name", "bare-"+way, "--context",
				lab.Context, "--user", "jane", "--group", lab.DevelopersGroup, "--approve-with", u.Cluster.AdminKubeconfig())
			s.WaitFor("Begin?")
			said := "note: the certificate is kept in the state folder alone: the token cannot be written to"
			if s.Frame().Contains(said) != (way == "protected") { // the other way tells nothing before
				t.Errorf("the review is\n%s", s.Screen())
			}
			s.Type("\r")
			s.Answer(pinPrompt, lab.PIN)
			if code := s.Exit(); code != 0 || !s.Frame().Contains("store the certificate: kept in the state folder") {
				t.Fatalf("exit code %d:\n%s", code, s.Output())
			}
			u.kubectl("--context", "bare-"+way, "get", "namespaces")
			u.ok(u.Kubehsm(t.Context(), "agent", "lock"))
		})
	}
	if after := whole(); string(after) != string(before) {
		t.Errorf("the token was written to:\n%s\nand was\n%s", after, before)
	}
}

// foreignKey makes a key of that kind, off any token.
func foreignKey(t *testing.T, kind string) (key crypto.Signer) {
	t.Helper()
	var bits int
	var err error
	if n, _ := fmt.Sscanf(kind, "rsa-%d", &bits); n == 1 {
		key, err = rsa.GenerateKey(rand.Reader, bits)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	}
	must.OK(t, err)
	return key
}

// fill has pkcs11-tool put a key on the token, with a certificate of the cluster's authority for a user of the name
// label.
func (u *user) fill(t *testing.T, id, label string, key crypto.Signer) {
	t.Helper()
	pki := filepath.Join(u.Cluster.Dir(), "pki")
	ca, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	must.OK(t, err)
	issuer, err := x509.ParseCertificate(ca.Certificate[0])
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:   pkix.Name{CommonName: label, Organization: []string{lab.DevelopersGroup}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), ca.PrivateKey)
	must.OK(t, err)
	u.write(t, id, label, key, certificate)
}

// write has pkcs11-tool put a key on the token, and its certificate if that is not nil.
func (u *user) write(t *testing.T, id, label string, key crypto.Signer, certificate []byte) {
	t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must.OK(t, err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	must.OK(t, err)
	for kind, der := range map[string][]byte{"privkey": private, "pubkey": public, "cert": certificate} {
		if der == nil {
			continue
		}
		file := filepath.Join(t.TempDir(), kind)
		must.OK(t, os.WriteFile(file, der, 0o600))
		cmd := exec.CommandContext(t.Context(), need.Program(t, "pkcs11-tool"), "--module", u.Soft.Module, "--token-label", lab.Token,
			"--login", "--pin", lab.PIN, "--write-object", file, "--type", kind, "--id", id, "--label", label)
		cmd.Env = append(os.Environ(), "SOFTHSM2_CONF="+u.Soft.Conf)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("pkcs11-tool, %s of %s: %v\n%s", kind, label, err, out)
		}
	}
}

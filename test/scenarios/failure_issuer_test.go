//go:build linux

package scenarios

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// signingFiles are the files that a controller manager signs with.
type signingFiles struct{ cert, key string }

func (f signingFiles) write(t *testing.T, cert, key []byte) {
	t.Helper()
	for file, b := range map[string][]byte{f.cert: cert, f.key: key} {
		must.OK(t, os.WriteFile(file, b, 0o600))
	}
}

// authority writes a new authority of that name.
func (f signingFiles) authority(t *testing.T, name pkix.Name) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: name,
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour * 24), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.OK(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must.OK(t, err)
	f.write(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// TestUntrustedIssuer enrolls where the controller manager signs with authorities
// that the API server does not accept: they are named, and the context that worked
// stays the current one until another has signed in.
func TestUntrustedIssuer(t *testing.T) {
	t.Parallel()
	files := signingFiles{filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "ca.key")}
	files.authority(t, pkix.Name{CommonName: "another-authority"})
	c := controlplane.StartForTest(t, controlplane.Options{ControllersFlags: []string{
		"--cluster-signing-cert-file=" + files.cert, "--cluster-signing-key-file=" + files.key}})
	signWith := func(change func()) {
		t.Helper()
		must.OK(t, c.StopControllers(t.Context()))
		change()
		must.OK(t, c.StartControllers(t.Context()))
	}
	own, err := os.ReadFile(c.CAFile())
	must.OK(t, err)
	block, _ := pem.Decode(own)
	ca, err := x509.ParseCertificate(block.Bytes)
	must.OK(t, err)
	u := newUser(t, lab.Options{Cluster: c})
	before := u.files(u.Kubeconfig)
	fails := func(hint string, texts ...string) {
		t.Helper()
		u.wantFailure(u.ran(u.KubehsmPIN(t.Context(), lab.PIN, u.enrollArgs("--context", lab.Context)...)), 1, hint, texts...)
		u.unchanged(before, u.Kubeconfig)
		if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != lab.Filer {
			t.Errorf("the current context is %q", out)
		}
	}
	forecast := func(run lab.Run, context string, texts ...string) {
		t.Helper()
		res := u.ran(u.Run(t.Context(), run, u.Binary, "csr", "forecast", "--user", "jane", "--context", context))
		for _, want := range append(texts, "issuer") {
			if !strings.Contains(res.Stdout, want) {
				t.Errorf("%q is not foretold: %s", want, res)
			}
		}
		if refused := strings.Contains(res.Stdout, "refuse"); refused != (res.Code == 1) {
			t.Error(res)
		}
	}

	// Nothing tells who signs before the first certificate.
	forecast(lab.Run{}, lab.Context, "is known only from a certificate")
	fails(`the kubeconfig was not changed, and its current context is still "prod"; `+
		"`kubehsm enroll --name prod-hsm` then asks for another certificate",
		`issued by "CN=another-authority"`, `accepted authorities: "`+ca.Subject.String()+`"`)
	forecast(lab.Run{}, lab.Context, "refuse", "another-authority", "the API server's TLS handshake")

	// Nor does a name that it accepts: only who may read the authority itself is told.
	signWith(func() { files.authority(t, ca.Subject) })
	fails("its current context is still \"prod\"", "does not accept the certificate",
		`issued by "`+ca.Subject.CommonName+`"`)
	forecast(lab.Run{Env: []string{"KUBECONFIG=" + c.AdminKubeconfig()}}, controlplane.ContextName, "refuse",
		"ConfigMap extension-apiserver-authentication")

	signWith(func() {
		key, err := os.ReadFile(filepath.Join(c.Dir(), "pki", "ca.key"))
		must.OK(t, err)
		files.write(t, own, key)
	})
	r := u.enroll("--context", lab.Context)
	if r.User != "jane" {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "did not accept the certificate on record") {
		t.Errorf("notes %q", r.Notes)
	}
	forecast(lab.Run{}, lab.Context, "ok", "which the API server accepts")
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("the current context is %q", out)
	}
	u.kubehsm("kubeconfig", "undo", "--yes") // a single undo: entry and current context
	u.unchanged(before, u.Kubeconfig)
}

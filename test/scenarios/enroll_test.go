//go:build linux

package scenarios

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// execInfo is what kubectl gives the plugin.
const execInfo = `KUBERNETES_EXEC_INFO={"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","spec":{"interactive":false}}`

func TestEnrollUnattended(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	r := u.enroll()
	if r.Name != enrolled || r.User != "jane" || !r.Rights || r.Ask != "" || r.NotAfter.Before(time.Now()) {
		t.Errorf("result %+v", r)
	}
	u.nothingHalfWritten()

	t.Run("as kubectl's own command", func(t *testing.T) {
		u := u.in(t)
		if out := u.ok(u.Run(t.Context(), lab.Run{}, "/bin/sh", "-c", "kubectl hsm agent status")); !strings.Contains(out,
			"Signatures") {
			t.Errorf("kubectl hsm: %s", out)
		}
	})
	t.Run("the key that kubectl holds is another one", u.testOtherKey(r))
	t.Run("again", func(t *testing.T) {
		u := u.in(t)
		tokens, kubeconfig := u.files(u.Soft.Tokens), u.files(u.Kubeconfig)
		res := u.ran(u.Kubehsm(t.Context(), u.enrollArgs()...)) // without the PIN: nothing needs it
		again := u.parse(u.ok(res, nil))
		if again.Fingerprint != r.Fingerprint || again.Request != r.Request || !again.NotAfter.Equal(r.NotAfter) {
			t.Errorf("a second run gave %+v, the first %+v", again, r)
		}
		if strings.Contains(res.Stderr, "done         key") ||
			!strings.Contains(res.Stderr, "done before  key on the token") {
			t.Errorf("the key was not reused:\n%s", res.Stderr)
		}
		u.unchanged(tokens, u.Soft.Tokens)
		u.unchanged(kubeconfig, u.Kubeconfig)
	})
}

// testOtherKey looks at the credential that kubectl gets: another key than the
// token's, and good for nothing at the API server itself.
func (u *user) testOtherKey(r result) func(t *testing.T) {
	return func(t *testing.T) {
		u := u.in(t)
		pair := u.credential(t)
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		must.OK(t, err)
		hash, err := hsm.Fingerprint(leaf.PublicKey)
		must.OK(t, err)
		if _, ok := pair.PrivateKey.(*ecdsa.PrivateKey); !ok || hash == r.Fingerprint {
			t.Errorf("kubectl holds a %T; its fingerprint is %s, the token's %s", pair.PrivateKey, hash, r.Fingerprint)
		}
		client := u.client(t, u.Cluster.CAFile(), pair)
		resp, err := client.Get(u.Cluster.Server() + "/api/v1/namespaces")
		must.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("the API server itself answers that key with %s", resp.Status)
		}
	}
}

// credential runs the plugin as kubectl does and returns what it prints.
func (u *user) credential(t *testing.T) tls.Certificate {
	t.Helper()
	out := u.ok(u.Run(t.Context(), lab.Run{Env: []string{execInfo}}, u.Binary, "credential", "--enrollment", enrolled))
	var cred struct {
		APIVersion, Kind string
		Status           struct{ ClientCertificateData, ClientKeyData, ExpirationTimestamp string }
	}
	if err := json.Unmarshal([]byte(out), &cred); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	pair, err := tls.X509KeyPair([]byte(cred.Status.ClientCertificateData), []byte(cred.Status.ClientKeyData))
	must.OK(t, err)
	if cred.APIVersion != "client.authentication.k8s.io/v1beta1" || cred.Kind != "ExecCredential" ||
		cred.Status.ExpirationTimestamp == "" {
		t.Errorf("ExecCredential %+v", cred)
	}
	return pair
}

// client speaks TLS with a client certificate and the CA in a file.
func (u *user) client(t *testing.T, caFile string, pair tls.Certificate) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	must.OK(t, err)
	pool := x509.NewCertPool()
	for block, rest := pem.Decode(ca); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		must.OK(t, err)
		pool.AddCert(c)
	}
	// Sent whatever authorities the server names: Certificates would be held back.
	always := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	tr := &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, GetClientCertificate: always}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

// pending returns the name of the one request that the user has filed.
func (u *user) pending(t *testing.T) string {
	t.Helper()
	list := parse[struct{ Requests []request }](t, u.kubehsm("csr", "list", "-o", "json", "--context", lab.Context))
	mine := u.fingerprint(t)
	for _, r := range list.Requests {
		if r.Fingerprint == mine && strings.EqualFold(r.State, "pending") {
			return r.Name
		}
	}
	t.Fatalf("no pending request for the key %s in %+v", mine, list.Requests)
	return ""
}

// fingerprint is that of the one key on the token.
func (u *user) fingerprint(t *testing.T) string {
	t.Helper()
	list := parse[struct {
		Keys []struct{ Fingerprint string }
	}](t, u.kubehsm("key", "list", "-o", "json"))
	if len(list.Keys) != 1 {
		t.Fatalf("keys %+v", list.Keys)
	}
	return list.Keys[0].Fingerprint
}

// approve is done by somebody else: an admin with a lab-less environment.
func (u *user) approve(t *testing.T, request string) {
	t.Helper()
	u.ok(u.Run(t.Context(), lab.Run{Env: []string{"KUBECONFIG=" + u.Cluster.AdminKubeconfig()}},
		u.Binary, "csr", "approve", request, "--yes", "--words", strings.Join(u.shown(request).Words, " ")))
}

//go:build linux

package scenarios

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// renewArgs renew with the approval of the admin.
func (u *user) renewArgs(more ...string) []string {
	return append([]string{"certificate", "renew", enrolled, "--yes", "--approve-with", u.Cluster.AdminKubeconfig(), "-o", "json"},
		more...)
}

// mayFile lets developers file requests, as somebody must be who renews alone.
func (u *user) mayFile() {
	u.t.Helper()
	if err := u.Cluster.Apply(u.t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: developers-file}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: csr-filer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: developers}]
`); err != nil {
		u.t.Fatal(err)
	}
}

// carriesPresent fails unless the request carries the certificate that it was filed with.
func (u *user) carriesPresent(request string) {
	u.t.Helper()
	var obj certificatesv1.CertificateSigningRequest
	must.OK(u.t, json.Unmarshal([]byte(u.admin("get", "csr", request, "-o", "json")), &obj))
	der, err := base64.StdEncoding.DecodeString(obj.Annotations[clusterapi.PresentCertificate])
	sum := sha256.Sum256(der)
	if err != nil || hex.EncodeToString(sum[:]) != revocation.Used(obj.Spec.Extra) {
		u.t.Errorf("it carries a certificate of %d bytes (%v), which is not %s", len(der), err, revocation.Used(obj.Spec.Extra))
	}
}

// TestRenew: with the certificate that is still valid, for the same key and for
// a new one; what is refused, and how to go on.
func TestRenew(t *testing.T) {
	t.Parallel()
	// A cluster of its own: here developers come to file requests.
	u := newUser(t, lab.Options{Cluster: controlplane.StartForTest(t, controlplane.Options{})})
	first := u.enroll("--expiration", "1h")

	// jane may not file requests: what to send to whom is said, and the record stays.
	res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, u.renewArgs()...))
	u.wantFailure(res, 1, "--with "+lab.Context, "needs create")
	u.mayFile()
	second := u.parse(u.ok(u.KubehsmPIN(t.Context(), lab.PIN, u.renewArgs()...)))
	if second.Fingerprint != first.Fingerprint || second.Request == first.Request ||
		second.NotAfter.Before(first.NotAfter) {
		t.Errorf("renewed as %+v, before %+v", second, first)
	}
	if by := u.admin("get", "csr", second.Request, "-o", "jsonpath={.spec.username}"); by != "jane" {
		t.Errorf("filed by %q, not with the certificate itself", by)
	}
	u.carriesPresent(second.Request)
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}

	// With the agent locked, the PIN serves for signing in and for signing.
	u.kubehsm("agent", "lock")
	third := u.parse(u.ok(u.KubehsmPIN(t.Context(), lab.PIN, u.renewArgs("--new-key")...)))
	if third.Fingerprint == first.Fingerprint || !strings.Contains(strings.Join(third.Notes, "\n"), "key delete") {
		t.Errorf("with a new key: %+v", third)
	}
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}
	if out := u.kubehsm("certificate", "renew", "--all"); !strings.Contains(out, "Nothing is due") {
		t.Errorf("--all: %s", out)
	}
	// To enroll again finds all as it is.
	if again := u.enroll("--expiration", "1h"); again.Fingerprint != third.Fingerprint || again.Request != third.Request {
		t.Errorf("enrolled again: %+v", again)
	}
	u.nothingHalfWritten()
}

// TestRenewTooLate: an expired certificate cannot ask for its successor; that is
// said here, not by a bare 401, and another credential can. Warnings come before.
func TestRenewTooLate(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	r := u.enroll()
	u.replaceCertificate(r, time.Now().Add(-2*time.Hour), time.Now().Add(10*time.Minute))
	if res := u.ran(u.Kubehsm(t.Context(), "token", "list")); !strings.Contains(res.Stderr,
		"kubehsm certificate renew "+enrolled) {
		t.Errorf("token list does not warn:\n%s", res.Stderr)
	}
	u.unlock()
	said := func() int {
		res := u.ran(u.Kubectl(t.Context(), "auth", "whoami"))
		if res.Code != 0 {
			t.Fatal(res)
		}
		return strings.Count(res.Stderr, "certificate renew "+enrolled)
	}
	if one, two := said(), said(); one != 1 || two != 0 {
		t.Errorf("the plugin warned %d times, then %d, want once a day", one, two)
	}
	u.replaceCertificate(r, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
	res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, u.renewArgs()...))
	u.wantFailure(res, 1, "--with "+lab.Context, "ended", "successor")
	again := u.parse(u.ok(u.KubehsmPIN(t.Context(), lab.PIN, u.renewArgs("--with", lab.Context)...)))
	if again.Fingerprint != r.Fingerprint || again.NotAfter.Before(time.Now()) {
		t.Errorf("renewed as %+v", again)
	}
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}
	if last := u.enroll(); last.Fingerprint != r.Fingerprint || last.Request != again.Request {
		t.Errorf("enrolled again: %+v", last)
	}
}

// replaceCertificate puts another certificate for the enrollment's key in place of
// the one that was issued.
func (u *user) replaceCertificate(r result, from, to time.Time) {
	u.t.Helper()
	file := filepath.Join(u.Home, "state", "certificates", r.Fingerprint, enrolled+".pem")
	chain, err := os.ReadFile(file)
	must.OK(u.t, err)
	der, err := u.Cluster.SignClient(publicKeyOf(u.t, chain), r.User, r.Groups, from, to)
	must.OK(u.t, err)
	must.OK(u.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
}

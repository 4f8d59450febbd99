//go:build linux

package scenarios

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// certificate is the one that the agent signs in with.
func (u *user) certificate(r result) *x509.Certificate {
	u.t.Helper()
	text, err := os.ReadFile(filepath.Join(u.Home, "state", "certificates", r.Fingerprint, enrolled+".pem"))
	must.OK(u.t, err)
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	must.OK(u.t, err)
	return c
}

// TestRenewsItself: where the cluster approved the last request by itself, the agent renews a certificate
// of ten minutes that is due, twice in a row, while kubectl watches. Nobody is asked.
func TestRenewsItself(t *testing.T) {
	t.Parallel()
	cluster := controlplane.StartForTest(t, controlplane.Options{}) // in which developers may file requests
	u := newUser(t, lab.Options{Cluster: cluster})
	u.enroll("--expiration", "10m")
	u.mayFile()
	lab.Approves(t, cluster)
	r := u.parse(u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "certificate", "renew", enrolled, "--yes", "-o", "json")))
	watch := u.sh("kubectl get namespaces --watch -o name")
	watch.WaitFor("namespace/default")
	for _, name := range []string{"renewed-once", "renewed-twice"} {
		now := time.Now()
		u.replaceCertificate(r, now.Add(-8*time.Minute), now.Add(2*time.Minute)) // seven of ten minutes have gone by
		due := u.certificate(r)
		u.kubectl("get", "namespaces") // The agent signs in with that one.
		poll.Until(u.t, "the certificate was renewed", func() bool { return !u.certificate(r).Equal(due) })
		if c := u.certificate(r); c.NotAfter.Before(now.Add(9*time.Minute)) || c.NotAfter.After(time.Now().Add(11*time.Minute)) {
			t.Errorf("the next one ends %s, now it is %s", c.NotAfter, now)
		}
		u.admin("create", "namespace", name)
		watch.WaitFor("namespace/" + name)
		u.kubectl("get", "namespaces")
	}
	if out := u.kubehsm("audit"); !strings.Contains(out, "renewal") {
		t.Errorf("the audit log has no renewal:\n%s", out)
	}
}

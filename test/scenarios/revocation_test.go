package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestRevocation: kubectl says why the certificate behind it is refused, and by whom. Other
// certificates are named by their files. What is lifted works again.
func TestRevocation(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	admin := u.newDesk("")
	me := parse[struct {
		Status struct {
			UserInfo struct{ Extra map[string][]string }
		}
	}](t, u.kubectl("auth", "whoami", "-o", "json"))
	hash := revocation.Used(me.Status.UserInfo.Extra)
	create := func() lab.Result {
		return u.ran(u.Kubectl(t.Context(), "create", "configmap", unique("a"), "--dry-run=server"))
	}
	if res := create(); res.Code != 0 {
		t.Fatal(res)
	}
	revoke := []string{"helpdesk", "revoke", "--fingerprint", "X509SHA256=" + hash, "--reason", "lost in a train"}
	if out := admin.ok(append(revoke, "--dry-run")...); !strings.Contains(out, hash[:16]) || !strings.Contains(out, "Still possible: reading") {
		t.Errorf("the dry run: %s", out)
	}
	if res := create(); res.Code != 0 {
		t.Errorf("after the dry run: %s", res)
	}
	if out := admin.ok(append(revoke, "--yes")...); !strings.Contains(out, "enforces it") {
		t.Errorf("revoke: %s", out)
	}
	res := create() // by the bridge
	for _, want := range []string{"was revoked on", "lost in a train", "by test-admin", "ask them, or a cluster admin"} {
		if !strings.Contains(res.Stderr, want) {
			t.Errorf("kubectl does not say %q: %s", want, res)
		}
	}
	u.mayFile()
	poll.Until(t, "developers may file requests", func() bool {
		_, err := u.Cluster.Admin(t.Context(), "", "auth", "can-i", "create", "certificatesigningrequests", "--as="+lab.User,
			"--as-group="+lab.DevelopersGroup)
		return err == nil
	})
	renewed := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "certificate", "renew", enrolled, "--yes"))
	t.Logf("renewed: %s", renewed)
	if renewed.Code != 1 || !strings.Contains(renewed.Stderr, "lost in a train; ask them, or a cluster admin") ||
		strings.Contains(renewed.Stderr, "kubectl ") {
		t.Errorf("the renewal of what is revoked: %s", renewed)
	}
	u.kubectl("get", "configmaps")
	if out := admin.ok("revocation", "list"); !strings.Contains(out, hash[:16]) || !strings.Contains(out, "lost in a train") {
		t.Errorf("the list: %s", out)
	}
	if res := u.newDesk(unique("nobody")).run("revocation", "lift", hash, "--yes"); res.Code != 1 {
		t.Errorf("who may not lift: %s", res)
	}
	admin.ok("revocation", "lift", hash[:16], "--yes")
	if res := create(); res.Code != 0 {
		t.Errorf("lifted: %s", res)
	}

	name := unique("live")
	if res := admin.kubectl(requestFor(t, name, name, "", time.Hour), "create", "-f", "-"); res.Code != 0 {
		t.Fatal(res)
	}
	u.admin("certificate", "approve", name)
	file := filepath.Join(t.TempDir(), "certificate.pem")
	must.OK(t, os.WriteFile(file, []byte(admin.ok("csr", "wait", name)), 0o600))
	for range 2 { // the second changes nothing
		admin.ok("helpdesk", "revoke", "--certificate", file, "--yes")
	}
	if out := admin.ok("revocation", "list", "-o", "json"); strings.Count(out, `"user": "`+name+`"`) != 1 {
		t.Errorf("the list: %s", out)
	}
	mine := filepath.Join(t.TempDir(), "admin.pem")
	must.OK(t, os.WriteFile(mine, u.certificateIn(u.Cluster.AdminKubeconfig()), 0o600))
	if res := admin.run("helpdesk", "revoke", "--certificate", mine, "--yes"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "is the one that you use") || !strings.Contains(res.Stderr, "--accept-risk=own,admin") {
		t.Errorf("one's own certificate: %s", res)
	}
}

// certificateIn is the client certificate in a kubeconfig, PEM.
func (u *user) certificateIn(file string) []byte {
	u.t.Helper()
	config, err := clientcmd.LoadFromFile(file)
	must.OK(u.t, err)
	for _, a := range config.AuthInfos {
		return a.ClientCertificateData
	}
	u.t.Fatal("no user in " + file)
	return nil
}

//go:build linux

package scenarios

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestNoRightsYet(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	name := unique("newcomer")
	args := []string{"enroll", "--user", name, "--approve-with", u.Cluster.AdminKubeconfig(), "--yes"}
	out := u.ok(u.KubehsmPIN(t.Context(), lab.PIN, args...))
	if !strings.Contains(out, "Enrolled: authenticated as "+name+", no rights yet") {
		t.Fatalf("the result: %s", out)
	}
	r := u.parse(u.ok(u.Kubehsm(t.Context(), append(args, "-o", "json")...)))
	if r.Rights || r.Ask == "" {
		t.Fatalf("the result: %+v", r)
	}
	// What is to be sent to an admin does it.
	u.ok(u.Run(t.Context(), lab.Run{Env: []string{"KUBECONFIG=" + u.Cluster.AdminKubeconfig()}}, "/bin/sh", "-ec", r.Ask))
	u.kubectl("get", "namespaces")
	if r := u.parse(u.ok(u.Kubehsm(t.Context(), append(args, "-o", "json")...))); !r.Rights {
		t.Errorf("with rights: %+v", r)
	}
}

func TestMayNotFileRequests(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{Groups: []string{"nobody-special"}})
	kubeconfig := u.files(u.Kubeconfig)
	args := []string{"enroll", "--user", "joe", "--group", lab.DevelopersGroup, "--yes"}
	res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, args...))
	u.wantFailure(res, 1, "send the lines below to an admin", "not allowed")
	u.unchanged(kubeconfig, u.Kubeconfig)
	i := strings.Index(res.Stderr, "\nkubectl apply")
	if i < 0 {
		t.Fatalf("no lines for the admin in:\n%s", res.Stderr)
	}
	lines := res.Stderr[i:]
	out := u.ok(u.Run(t.Context(), lab.Run{Env: []string{"KUBECONFIG=" + u.Cluster.AdminKubeconfig()}}, "/bin/sh", "-ec",
		lines))
	if !strings.Contains(out, "approved") {
		t.Errorf("the admin's shell said %q", out)
	}
	request := strings.TrimSpace(lines[strings.LastIndex(lines, "approve ")+len("approve "):])
	if u.ran(u.Kubehsm(t.Context(), "csr", "show", request)).Code == 0 {
		// The user may read it: the same command completes.
		u.ok(u.KubehsmPIN(t.Context(), lab.PIN, args...))
	} else {
		// The user may not even read it: the admin sends the certificate.
		var pem string
		poll.Until(u.t, "the certificate is issued", func() bool {
			pem = u.admin("get", "csr", request, "-o", "go-template={{with .status.certificate}}{{. | base64decode}}{{end}}")
			return pem != ""
		})
		u.ok(u.Run(t.Context(), lab.Run{Stdin: pem}, u.Binary, "certificate", "import", "-", "--enrollment", enrolled))
		u.ok(u.KubehsmPIN(t.Context(), lab.PIN, args...))
	}
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "joe" {
		t.Errorf("kubectl is %q", out)
	}
}

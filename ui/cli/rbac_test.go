package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestRBACCheckRenewals: a cluster whose roles are in place, but where those on the roster may not renew, is not as
// it should be; the command that mends it is that of the documentation.
func TestRBACCheckRenewals(t *testing.T) {
	b := newBench(t)
	server := flowtest.New(t, "admin")
	flowtest.PointAt(t, &env.Env{Kubeconfig: filepath.Join(b.home, "kubeconfig")}, server.Server)
	b.ok("rbac", "apply", "--yes")
	b.ok("rbac", "check")
	server.Put("/apis/kubehsm.github.io/v1alpha1/namespaces/"+clusterapi.Namespace+"/hardwaretokens", flowtest.Object{
		"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
		"metadata": flowtest.Object{"name": "1", "namespace": clusterapi.Namespace},
		"spec":     flowtest.Object{"state": "Active", "owner": "jane", "groups": []string{"dev"}}})
	code, out, errs := b.run("rbac", "check")
	const grant = "kubectl create clusterrolebinding kubehsm-renewals --clusterrole=kubehsm:ticket --group=dev"
	if code != 1 || !strings.Contains(out, "may not file requests: group dev") || !strings.Contains(errs, grant) {
		t.Errorf("exit %d\n%s\n%s", code, out, errs)
	}
	if !strings.Contains(b.read(filepath.Join("..", "..", "docs", "fleet.md")), grant) {
		t.Error("docs/fleet.md has another command")
	}
	if _, out, _ = b.run("rbac", "check", "-o", "json"); !strings.Contains(out, `"cannotRenew"`) {
		t.Errorf("%s", out)
	}
	server.Trust("dev")
	b.ok("rbac", "check")
}

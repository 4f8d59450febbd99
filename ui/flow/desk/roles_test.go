package desk

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// TestManifests: the roles and policies name the groups that the program gives.
func TestManifests(t *testing.T) {
	if _, err := RBACManifest("none"); err == nil {
		t.Error("the manifest of no such roles")
	}
	if manifest, err := RBACManifest("ticket"); err != nil || !strings.Contains(manifest, ticket.Group) {
		t.Errorf("the group of tickets is not bound: %v", err)
	}
	manifest, err := RBACManifest("breakglass")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{request.BreakGlassGroup, csr.ReasonAnnotation, "<= 3600"} {
		if !strings.Contains(manifest, group) {
			t.Errorf("the policy does not know %q", group)
		}
	}
}

// TestPublishing: what everybody would see is printed with its address and CA; a cluster that publishes already gets none.
func TestPublishing(t *testing.T) {
	w := desk(t)
	text, err := ClusterInfo(t.Context(), w.Env, "")
	if err != nil || !strings.Contains(text, "sha256:") || strings.Count(text, "namespace: kube-public") != 3 ||
		!strings.Contains(text, "name: system:anonymous") {
		t.Errorf("%s\n%v", text, err)
	}
	w.Server.Allow("get configmaps")
	w.Server.Put("/api/v1/namespaces/kube-public/configmaps", flowtest.Object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": flowtest.Object{"name": "cluster-info", "namespace": "kube-public"},
		"data":     flowtest.Object{"kubeconfig": "anything"}})
	if _, err := ClusterInfo(t.Context(), w.Env, ""); !errors.Is(err, ErrPublished) {
		t.Errorf("a cluster that publishes: %v", err)
	}
}

// TestLacksRights: a member of the help desk hears of the rights that are missing, nobody else does.
func TestLacksRights(t *testing.T) {
	w := desk(t)
	lacks := func(want ...string) {
		t.Helper()
		if got, err := LacksRights(t.Context(), w.Env, ""); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	lacks()
	w.Server.Forbid("delete secrets")
	lacks("delete on secrets in kube-system")
	w.Server.Forbid("create secrets", "approve signers", "update requestreviews")
	lacks()
	w.Server.Gone()
	if _, err := LacksRights(t.Context(), w.Env, ""); err == nil {
		t.Error("of a server that is gone")
	}
}

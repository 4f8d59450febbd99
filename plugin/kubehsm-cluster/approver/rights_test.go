package approver

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRights: what the approver's roles give is read from their manifest, and that is no secret, nothing with a
// wildcard, and no right that leads to others.
func TestRights(t *testing.T) {
	manifest, err := os.ReadFile("../manifests/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := rights(manifest)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, a := range all {
		said[wordsOf(a)] = true
		if a.Resource == "secrets" || strings.Contains(a.Verb+a.Group+a.Resource+a.Name, "*") ||
			slices.Contains([]string{"impersonate", "bind", "escalate"}, a.Verb) {
			t.Errorf("the approver may %s", wordsOf(a))
		}
	}
	for _, want := range []string{
		"update certificatesigningrequests.certificates.k8s.io/approval",
		"approve signers.certificates.k8s.io kubernetes.io/kube-apiserver-client",
		"update hardwaretokens.kubehsm.github.io/status in kubehsm-system",
		"create events in kubehsm-system",
		"update leases.coordination.k8s.io kubehsm-cluster in kubehsm-system",
	} {
		if !said[want] {
			t.Errorf("no %q in %v", want, said)
		}
	}
	if _, err := rights([]byte("rules: 1")); err == nil {
		t.Error("what is no role is read")
	}
}

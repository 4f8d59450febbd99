package stamp

import (
	"slices"
	"strings"
	"testing"
)

// TestFlags: both modules that are built here are of one Kubernetes, which the
// flags say.
func TestFlags(t *testing.T) {
	cluster, err := Flags(t.Context(), "../cluster", "k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := Flags(t.Context(), "../kubectl-externalsigner", "k8s.io/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cluster, kubectl) || len(kubectl) != 8 {
		t.Errorf("the control plane is stamped %q, kubectl-externalsigner %q", cluster, kubectl)
	}
	for _, f := range kubectl {
		if strings.ContainsAny(f, " '\"") { // the flags are joined by spaces
			t.Errorf("the flag %q", f)
		}
	}
	if _, err := Flags(t.Context(), "../cluster", "k8s.io/none"); err == nil {
		t.Error("a module that is not there has a version")
	}
}

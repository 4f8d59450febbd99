package desk

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// What RBAC's comparison takes for the same and what not.
func TestContains(t *testing.T) {
	want := map[string]any{"a": []any{"x"}, "b": map[string]any{"c": 1.0}}
	for what, tc := range map[string]struct {
		live map[string]any
		same bool
	}{
		"the same":       {map[string]any{"a": []any{"x"}, "b": map[string]any{"c": 1}}, true},
		"more fields":    {map[string]any{"a": []any{"x"}, "b": map[string]any{"c": 1.0, "d": 2}, "e": 3}, true},
		"a longer list":  {map[string]any{"a": []any{"x", "y"}, "b": map[string]any{"c": 1.0}}, false},
		"another value":  {map[string]any{"a": []any{"x"}, "b": map[string]any{"c": 2.0}}, false},
		"a missing one":  {map[string]any{"a": []any{"x"}}, false},
		"another type":   {map[string]any{"a": "x", "b": map[string]any{"c": 1.0}}, false},
		"an empty thing": {nil, false},
	} {
		if got := contains(tc.live, want); got != tc.same {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// Every object that is carried can be read and has a place in the API.
func TestRBACObjects(t *testing.T) {
	all, err := rbacObjects(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Errorf("only %d objects", len(all))
	}
	for _, o := range all {
		if path, err := o.text.path(); err != nil || !strings.HasSuffix(path, "/"+o.Name) || o.Name == "" {
			t.Errorf("%s %s: %q, %v", o.Kind, o.Name, path, err)
		}
	}
	if manifest, err := RBACManifest("ticket"); err != nil || !strings.Contains(manifest, ticket.Group) {
		t.Errorf("the group of tickets is not bound: %v", err)
	}
	manifest, err := RBACManifest("breakglass")
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{request.BreakGlassGroup, request.SealedGroup, csr.ReasonAnnotation, "<= 3600"} {
		if !strings.Contains(manifest, group) {
			t.Errorf("the policy does not know %q", group)
		}
	}
}

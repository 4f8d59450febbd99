package desk

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
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
	must.OK(t, err)
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
	must.OK(t, err)
	for _, group := range []string{request.BreakGlassGroup, csr.ReasonAnnotation, "<= 3600"} {
		if !strings.Contains(manifest, group) {
			t.Errorf("the policy does not know %q", group)
		}
	}
}

// TestPublishing: cluster-info is published where nobody does, and what somebody publishes stays.
func TestPublishing(t *testing.T) {
	w := desk(t)
	w.Server.Allow("get configmaps")
	roles := NewRoles(w.Env).Publishing()
	const maps, rights = "/api/v1/namespaces/kube-public/configmaps",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public/rolebindings"
	info := func(all []RBACObject) (states []RBACState) {
		for _, o := range all {
			if o.Set == "cluster-info" {
				states = append(states, o.State)
			}
		}
		return states
	}
	if all, err := roles.Check(t.Context(), "", []string{"ticket"}); err != nil ||
		!slices.Equal(info(all), []RBACState{RBACMissing, RBACMissing, RBACMissing}) ||
		!slices.ContainsFunc(all, func(o RBACObject) bool { return strings.Contains(o.Says, "sha256:") }) {
		t.Errorf("before: %+v, %v", all, err)
	}
	if err := roles.Published(t.Context(), ""); err == nil || !strings.Contains(hinting.Of(err), "--self-contained") {
		t.Errorf("before: %v", err)
	}
	if all, err := roles.Apply(t.Context(), "", []string{"ticket"}, false, false); err != nil ||
		!slices.Equal(info(all), []RBACState{RBACApplied, RBACApplied, RBACApplied}) {
		t.Errorf("%+v, %v", all, err)
	}
	if names := w.Server.Names(rights); len(names) != 1 {
		t.Errorf("the bindings are %q", names)
	}
	var before, after flowtest.Object
	w.Server.Get(maps, "cluster-info", &before)
	if all, err := roles.Apply(t.Context(), "", []string{"ticket"}, false, true); err != nil ||
		!slices.Equal(info(all), []RBACState{RBACSame, RBACSame, RBACSame}) {
		t.Errorf("again: %+v, %v", all, err)
	}
	w.Server.Get(maps, "cluster-info", &after)
	if len(before) == 0 || !reflect.DeepEqual(before, after) || roles.Published(t.Context(), "") != nil {
		t.Errorf("it was %v, and is %v", before, after)
	}
	w.Server.Forbid("get configmaps")
	if _, err := roles.Check(t.Context(), "", []string{"ticket"}); err == nil {
		t.Error("what may not be read is published")
	}
}

// TestLacks: the approver's Events of late say what it may not do, others do not.
func TestLacks(t *testing.T) {
	w, now := desk(t), time.Now()
	w.Server.Allow("list events")
	put := func(name, reason string, first, last time.Time) {
		w.Server.Put("/apis/events.k8s.io/v1/namespaces/kubehsm-system/events", flowtest.Object{
			"apiVersion": "events.k8s.io/v1", "kind": "Event", "reason": reason, "note": "may not " + name,
			"metadata":  map[string]any{"namespace": clusterapi.Namespace, "name": name},
			"eventTime": first.Format(time.RFC3339Nano),
			"series":    map[string]any{"lastObservedTime": last.Format(time.RFC3339Nano)}})
	}
	put("update", clusterapi.RightsMissing, now.Add(-time.Hour), now.Add(-time.Minute))
	put("create", clusterapi.RightsMissing, now.Add(-2*time.Hour), now.Add(-time.Hour))
	put("list", "Denied", now, now)
	if all, err := NewRoles(w.Env).Lacks(t.Context(), "", now); err != nil || !slices.Equal(all, []string{"may not update"}) {
		t.Errorf("%q, %v", all, err)
	}
	w.Server.Forbid("list events")
	if all, err := NewRoles(w.Env).Lacks(t.Context(), "", now); err != nil || all != nil {
		t.Errorf("without the right to read Events: %q, %v", all, err)
	}
}

package renewals

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// rosterPath is where the API has the roster.
const rosterPath = "/apis/kubehsm.github.io/v1alpha1/namespaces/" + clusterapi.Namespace + "/hardwaretokens"

// world has a cluster of which the caller is an admin.
func world(t *testing.T) *flowtest.World {
	t.Helper()
	return flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "admin")
}

// enlist puts a token on the roster.
func enlist(s *flowtest.Server, serial, state, owner string, groups ...string) {
	s.Put(rosterPath, flowtest.Object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
		"metadata": flowtest.Object{"name": serial, "namespace": clusterapi.Namespace},
		"spec":     flowtest.Object{"state": state, "owner": owner, "groups": groups}})
}

// TestLook: who on the roster may not file requests is known, by group or by name; nothing is claimed
// where the caller may not look.
func TestLook(t *testing.T) {
	w, now := world(t), time.Now()
	const reviews = "create subjectaccessreviews"
	look := func() Barred {
		n, err := Look(t.Context(), w.Env, "", now)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if n := look(); n.Err() != nil {
		t.Errorf("of an empty roster: %+v", n)
	}
	enlist(w.Server, "1", "Active", "jane", "dev")
	enlist(w.Server, "2", "HandedOut", "joe", "dev", "it's")
	enlist(w.Server, "3", "Active", "ann")
	enlist(w.Server, "4", "Lost", "bob", "left")
	enlist(w.Server, "5", "Retired", "eve")
	enlist(w.Server, "6", "Stock", "")
	w.Server.Put(rosterPath, flowtest.Object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
		"metadata": flowtest.Object{"name": "7", "namespace": clusterapi.Namespace},
		"spec": flowtest.Object{"state": "Active", "owner": "max", "groups": []string{"past"},
			"horizon": now.Add(-time.Hour).UTC().Format(time.RFC3339)}})
	n := look()
	const grants = "`kubectl create clusterrolebinding kubehsm-renewals --clusterrole=kubehsm:ticket --group=dev " +
		`'--group=it'\''s' --user=ann` + "`"
	if !slices.Equal(n.Groups, []string{"dev", "it's"}) || !slices.Equal(n.Users, []string{"ann"}) || n.Unasked != 0 ||
		!strings.Contains(hint.Of(n.Err()), grants) {
		t.Errorf("nobody may: %+v, hint %q", n, hint.Of(n.Err()))
	}
	for trusted, want := range map[string]string{
		"system:authenticated": "[] []",
		"dev":                  "[] [ann]",
		"dev ann":              "[] []",
		"it's":                 "[dev] [ann]",
		"jane":                 "[dev it's] [ann]", // others in the group may not
		"jane joe ann":         "[] []",            // each by name
	} {
		w.Server.Trust(strings.Fields(trusted)...)
		if n := look(); fmt.Sprint(n.Groups, n.Users) != want {
			t.Errorf("%s may: %v %v, want %s", trusted, n.Groups, n.Users, want)
		}
	}
	w.Server.Trust()
	for _, right := range []string{reviews, "list hardwaretokens"} {
		w.Server.Forbid(right)
		if n := look(); n.Err() != nil {
			t.Errorf("without the right to %s: %+v", right, n)
		}
		w.Server.Allow(right)
	}
	w.Server.Fail(http.StatusInternalServerError, reviews)
	if n, err := Look(t.Context(), w.Env, "", now); err == nil || n.Err() != nil {
		t.Errorf("of a server that fails: %+v, %v", n, err)
	}
	none := httptest.NewTLSServer(http.NotFoundHandler()) // a cluster without the approver
	defer none.Close()
	flowtest.PointAt(t, w.Env, none)
	if n := look(); n.Err() != nil {
		t.Errorf("without a roster: %+v", n)
	}
}

// TestLookBound: of a long roster only so many are asked about, and of those in one group few.
func TestLookBound(t *testing.T) {
	w := world(t)
	asked := 0
	w.Server.Before(func(right string) flowtest.Fate {
		if right == "create subjectaccessreviews" {
			asked++
		}
		return 0
	})
	for i := range 60 {
		enlist(w.Server, fmt.Sprint(100+i), "Active", fmt.Sprint("user-", i), "dev")
	}
	n, err := Look(t.Context(), w.Env, "", time.Now())
	if err != nil || !slices.Equal(n.Groups, []string{"dev"}) || n.Unasked != 0 || asked != 2 {
		t.Errorf("of one group: %+v, %v, after %d questions", n, err, asked)
	}
	asked = 0
	for i := range 60 {
		enlist(w.Server, fmt.Sprint(100+i), "Active", fmt.Sprint("user-", i))
	}
	n, err = Look(t.Context(), w.Env, "", time.Now())
	if err != nil || len(n.Users) != maxAsked || n.Unasked != 60-maxAsked || asked != maxAsked ||
		!strings.Contains(hint.Of(n.Err()), "--user=user-2`, and the others in the same way") {
		t.Errorf("without groups: %d users, %d not asked, %v, after %d questions; hint %q", len(n.Users), n.Unasked, err, asked,
			hint.Of(n.Err()))
	}
}

// TestNeedsConsent: where a consent policy asks about writes, the questions are not put.
func TestNeedsConsent(t *testing.T) {
	w := world(t)
	if asks, err := needsConsent(t.Context(), w.Env, ""); asks || err != nil {
		t.Errorf("of a context with a key file: %v, %v", asks, err)
	}
	en := w.Enroll("prod", "jane")
	change, err := contexts.New(w.Env).PlanEntry(t.Context(), en, true, true)
	if err == nil {
		err = change.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[consent.Mode]bool{consent.Session: false, consent.Writes: true} {
		en.Policy = mode
		if err := w.Env.Enrollments().Save(en); err != nil {
			t.Fatal(err)
		}
		if asks, err := needsConsent(t.Context(), w.Env, "prod"); asks != want || err != nil {
			t.Errorf("policy %s: %v, %v", mode, asks, err)
		}
	}
}

package desk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestLookUp: a look finds what a user has, and changes nothing. It says what the caller may
// not look at; any other failure is an error.
func TestLookUp(t *testing.T) {
	unseen := func(r Revocation) string { return strings.Join(r.Unseen, "; ") }
	flowtest.UseCase{Name: "look up", World: desk,
		Passes: append(unversioned(), "forbidden: list certificatesigningrequests",
			"forbidden: list clusterrolebindings", "forbidden: list rolebindings", "forbidden: list secrets",
			"forbidden: list hardwaretokens", "forbidden: list clusterroles",
			"forbidden: list roles"),
		Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			r, err := NewRevocations(w.Env).LookUp(ctx, "", "jane", nil, nil)
			if err != nil {
				return err
			}
			found := []int{len(r.Bindings), len(r.GroupBindings), len(r.Certificates), len(r.Pending), len(r.Approved),
				len(r.Tickets)}
			if len(r.Unseen) == 0 && (!slices.Equal(found, []int{2, 1, 1, 1, 1, 1}) || r.Stop != nil && !r.StopsCertificate(r.Certificates[0]) || r.Until(false).IsZero() || !r.Removable() ||
				r.Err() != nil) {
				return fmt.Errorf("found %v: %+v", found, r)
			}
			if len(r.Unseen) > 0 && (r.Err() == nil || !strings.Contains(r.Err().Error(), unseen(r)) ||
				!strings.Contains(hinting.Of(r.Err()), "helpdesk revoke --user jane")) {
				return fmt.Errorf("unseen %q, and the error is %v", r.Unseen, r.Err())
			}
			return nil
		}}.Try(t)
	w := desk(t)
	r, err := NewRevocations(w.Env).LookUp(t.Context(), "", "nobody", []string{"dev"}, nil)
	if err != nil || r.Removable() || len(r.GroupBindings) != 1 || !r.Until(false).IsZero() {
		t.Errorf("of nobody, in a group: %+v, %v", r, err)
	}
}

// TestDeskRevokes: what the help desk may not look at is no failure where the approver revokes for it.
func TestDeskRevokes(t *testing.T) {
	w := asDesk(t)
	w.Server.Forbid("list clusterrolebindings", "list rolebindings", "list secrets")
	r, err := NewRevocations(w.Env).LookUp(t.Context(), "", "jane", nil, nil)
	if err != nil || r.Stop == nil || !r.Stop.ByApprover || len(r.Unseen) == 0 || r.Err() != nil {
		t.Errorf("%+v, %v, %v", r, err, r.Err())
	}
}

// TestRevokeRefused: a certificate whose revocation is a risk fails for itself; the rest is done.
// The risk can be accepted.
func TestRevokeRefused(t *testing.T) {
	for accepted, done := range map[string]int{"": 1, RiskAdmin: 2} {
		w := desk(t)
		w.Server.File("jane-4", "jane", "jane", []string{"system:masters"}, nil)
		w.Server.Issue("jane-4")
		r, err := NewRevocations(w.Env).LookUp(t.Context(), "", "jane", nil, []string{accepted})
		if err == nil {
			err = NewRevocations(w.Env).Revoke(t.Context(), "", &r)
		}
		l, lerr := NewStopping(w.Env).List(t.Context(), "")
		on := 0
		for range l.All() {
			on++
		}
		if err != nil || lerr != nil || on != done {
			t.Errorf("accepting %q: %v, %v, failed %q", accepted, err, lerr, r.Failed)
		}
		if refused := strings.Contains(strings.Join(r.Failed, ""), "system:masters"); refused != (accepted == "") ||
			refused && !strings.Contains(hinting.Of(r.Err()), "--accept-risk=admin") {
			t.Errorf("accepting %q: failed %q, %v", accepted, r.Failed, r.Err())
		}
	}
}

// TestRevoke: everything that can be taken away is taken away. A failure is reported and the
// rest goes on.
func TestRevoke(t *testing.T) {
	var r Revocation
	all := flowtest.Failing("delete", "update", "get", "create", "patch", "list")
	flowtest.UseCase{Name: "revoke", World: func(t testing.TB) *flowtest.World {
		w := desk(t)
		var err error
		if r, err = NewRevocations(w.Env).LookUp(t.Context(), "", "jane", nil, nil); err != nil {
			t.Fatal(err)
		}
		return w
	},
		Passes: all, Leaves: append(all, "ctrl-c"),
		Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			err := NewRevocations(w.Env).Revoke(ctx, "", &r)
			left := slices.Concat(w.Server.Names(bindings), w.Server.Names(flowtest.Requests), w.Server.Names(flowtest.Secrets))
			switch {
			case ctx.Err() != nil && (err != nil || len(r.Failed) > 0):
				return ctx.Err()
			case len(r.Done)+len(r.Failed) != 6:
				t.Errorf("done %q, failed %q", r.Done, r.Failed)
			case len(r.Failed) == 0 && (r.Err() != nil || !slices.Equal(left, []string{"all", "jane-1", "jane-2"})):
				t.Errorf("%v, left %q", r.Err(), left)
			case len(r.Failed) > 0 && (r.Err() == nil || !strings.Contains(hinting.Of(r.Err()), "have a cluster admin run")):
				t.Errorf("%v, failed %q", r.Err(), r.Failed)
			}
			return err
		},
		Done: func(t testing.TB, w *flowtest.World) {
			var o flowtest.Object
			if !w.Server.Get(roleBindings, "shared", &o) || len(o["subjects"].([]any)) != 1 {
				t.Errorf("joe's binding is %v", o)
			}
		}}.Try(t)
}

// TestRevokeAgain: what was revoked before is said to be, and is not among what goes on.
func TestRevokeAgain(t *testing.T) {
	w := desk(t)
	for n := range 2 {
		r, err := NewRevocations(w.Env).LookUp(t.Context(), "", "jane", nil, nil)
		if err != nil || len(r.Certificates) != 1 || r.Revoked(r.Certificates[0]) != (n == 1) ||
			r.RevokedAlready(r.Certificates[0]) != (n == 1) {
			t.Fatalf("look %d: %+v, %v", n, r, err)
		}
		if err := NewRevocations(w.Env).Revoke(t.Context(), "", &r); err != nil || len(r.Failed) > 0 {
			t.Fatal(err, r.Failed)
		}
		if !r.Revoked(r.Certificates[0]) || !r.Until(false).IsZero() || r.Until(true).IsZero() || r.Stop.Done == nil ||
			!r.Stop.Done.InForce {
			t.Errorf("done %d: %+v", n, r)
		}
	}
}

package enroll

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// TestRemarks: a review's remarks are its notes, and of the forecast what wants attention.
func TestRemarks(t *testing.T) {
	points := []csr.Point{{ID: "a", Verdict: csr.Warn, Reason: "odd"},
		{ID: "b", Verdict: csr.Refuse, Reason: "never", Evidence: "the book"},
		{ID: "c", Verdict: csr.OK, Reason: "fine"}}
	if notes := strings.Join(Review{Notes: []string{"n"}, Forecast: points}.Remarks(),
		"\n"); notes != "n\nodd\nthis will be refused: never" {
		t.Errorf("remarks: %q", notes)
	}
}

// TestReviewOfAnApproved: who goes on with an enrollment is told whether its request still waits for
// somebody, as the cluster says now.
func TestReviewOfAnApproved(t *testing.T) {
	w := scene(t)
	w.Server.Signs(false)
	ctx, stop := context.WithCancel(t.Context())
	o := enrolling.Options{Name: "prod-hsm", User: "jane", AcceptForecast: true}
	_, err := NewEnroller(w.Env).Enroll(ctx, o, hsmtest.Typing(t, w.Card.PIN()), func(e enrolling.Event) {
		if e.Approval != nil {
			if words := strings.Fields(e.Approval.Words); len(words) != 8 ||
				e.Approval.Command != "kubehsm csr approve "+e.Approval.Request {
				t.Errorf("to be sent: %+v", e.Approval)
			}
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	approved := func() bool {
		t.Helper()
		r, err := NewEnroller(w.Env).Review(t.Context(), enrolling.Options{Name: "prod-hsm"})
		must.OK(t, err)
		return r.Approved
	}
	if approved() {
		t.Error("approved while it waits")
	}
	w.Server.Issue(w.Server.Names(flowtest.Requests)[0])
	if !approved() {
		t.Error("not approved once it is issued")
	}
	w.Server.Gone()
	if approved() {
		t.Error("approved by a cluster that is gone")
	}
}

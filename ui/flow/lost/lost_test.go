package lost

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

const reports = "/apis/kubehsm.github.io/v1alpha1/namespaces/" + clusterapi.Namespace + "/lossreports"

// other is the certificate of jane's other token.
var other = strings.Repeat("ab", 32)

// janes is a cluster where jane is signed in with another token than the one that this computer knows, whose serial
// number is returned.
func janes(t *testing.T) (*flowtest.World, string) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane")
	e := w.Enroll("prod", "jane")
	elsewhere := w.Enrolled(t, "prod", "stage")
	elsewhere.Cluster.Server = "https://elsewhere:6443"
	if err := w.Env.Enrollments().Save(elsewhere); err != nil {
		t.Fatal(err)
	}
	w.Server.SignedInWith(other)
	return w, e.Key.Serial
}

// act does what the approver does with jane's report.
func act(t *testing.T, w *flowtest.World, status, reason, message string) {
	t.Helper()
	var o flowtest.Object
	if !w.Server.Get(reports, other, &o) {
		t.Fatal("there is no report")
	}
	o["status"] = flowtest.Object{"certificates": 2, "until": "2027-01-01T00:00:00Z",
		"conditions": []flowtest.Object{{"type": clusterapi.InForce, "status": status, "reason": reason,
			"message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}}}
	w.Server.Put(reports, o)
}

// TestReport: a report is in the owner's name and by the certificate that they use, is made once, and is waited for.
// What the approver answers is told.
func TestReport(t *testing.T) {
	w, serial := janes(t)
	r := New(w.Env)
	token, err := r.LookUp(t.Context(), "", "piv:serial="+serial)
	if err != nil {
		t.Fatal(err)
	}
	if token.Serial != serial || token.User != "jane" || token.Enrollment != "prod" || token.NotAfter.IsZero() ||
		len(token.Elsewhere) != 1 || token.Elsewhere[0] != "stage" || len(w.Server.Names(reports)) > 0 {
		t.Errorf("looked up as %+v, with %q", token, w.Server.Names(reports))
	}
	for _, c := range []struct {
		status, reason, says string
		is                   error
	}{
		{"", "", "has not acted", ErrPending},
		{"False", "NotWritten", "exceeded quota", ErrPending},
		{"False", clusterapi.NotYours, "", ErrNotYours},
		{"True", "Enforced", "", nil},
	} {
		if c.status != "" {
			act(t, w, c.status, c.reason, c.says)
		}
		token, err := r.LookUp(t.Context(), "", serial)
		if err != nil {
			t.Fatal(err)
		}
		err = r.Report(t.Context(), "", &token, "left on a train", 300*time.Millisecond)
		if !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) || err != nil && hinting.Of(err) == "" {
			t.Errorf("%s: %v, hint %q", c.reason, err, hinting.Of(err))
		}
		if done := token.Revoked; (done != nil) != (c.is == nil) || done != nil && (done.Certificates != 2 || done.Until.Year() != 2027) {
			t.Errorf("%s: %+v", c.reason, done)
		}
	}
	var made clusterapi.LossReport
	if names := w.Server.Names(reports); len(names) != 1 || !w.Server.Get(reports, other, &made) ||
		made.Spec != (clusterapi.LossSpec{Token: serial, By: "jane", Note: "left on a train"}) {
		t.Errorf("the reports are %q, %+v", names, made.Spec)
	}
}

package desk

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr/revocation"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

const revocations = "/apis/kubehsm.github.io/v1alpha1/namespaces/" + clusterapi.Namespace + "/revocations"

// asDesk is [desk]'s world for a caller who may not change admission policies.
func asDesk(t *testing.T) *flowtest.World {
	w := desk(t)
	w.Server.Forbid("create validatingadmissionpolicies", "list validatingadmissionpolicies")
	return w
}

// act does what the approver does with a Revocation.
func act(t *testing.T, w *flowtest.World, name, status, message string) {
	t.Helper()
	var o flowtest.Object
	w.Server.Get(revocations, name, &o)
	o["status"] = flowtest.Object{"conditions": []flowtest.Object{{"type": clusterapi.InForce, "status": status,
		"message": message, "reason": "Any", "lastTransitionTime": "2026-01-01T00:00:00Z"}}}
	w.Server.Put(revocations, o)
}

// TestFiled: who may not change policies has the approver revoke, in their own name, is told what came of it,
// and does not file the same twice. An admin lifts it.
func TestFiled(t *testing.T) {
	w := asDesk(t)
	s := NewStopping(w.Env)
	targets := janes(t, w)
	for _, c := range []struct{ status, says string }{{"", "has not acted"}, {"False", "etcd is full"}, {"True", ""}} {
		stop, err := s.LookUp(t.Context(), "", targets, nil)
		if err != nil || !stop.ByApprover {
			t.Fatalf("%+v, %v", stop, err)
		}
		if waits := strings.Contains(strings.Join(stop.Warnings, ""), "not put it in force yet"); waits != (c.status != "") {
			t.Errorf("%q: warnings %q", c.status, stop.Warnings)
		}
		stop.Patience = 10 * time.Millisecond
		for _, name := range w.Server.Names(revocations) {
			act(t, w, name, c.status, c.says)
		}
		must.OK(t, s.Stop(t.Context(), "", &stop, "lost"))
		if err := stop.Pending(); (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) ||
			!strings.Contains(hinting.Of(err), "cluster admin")) {
			t.Errorf("%q: %v", c.status, err)
		}
		all, err := s.Filed(t.Context(), "")
		if err != nil || len(all) != 1 || all[0].Spec.By != "admin" || all[0].Spec.User != "jane" ||
			all[0].Spec.Certificates[0].Fingerprint != targets[0].Certificate || all[0].Spec.Certificates[0].Key == "" {
			t.Errorf("%q: %+v, %v", c.status, all, err)
		}
	}
	list, err := s.List(t.Context(), "")
	if _, on := list.Find(targets[0].Certificate, ""); !on || err != nil || list.Err() != nil {
		t.Errorf("the list: %+v, %v, %v", list, err, list.Err())
	}
	w.Server.Allow("create validatingadmissionpolicies", "list validatingadmissionpolicies")
	if done, err := s.Lift(t.Context(), "", []string{targets[0].Certificate}); err != nil || !done.InForce {
		t.Errorf("lift: %+v, %v", done, err)
	}
	if left := w.Server.Names(revocations); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestFiledForLonger: what is revoked for less than it is good, or without its key, is not revoked already.
func TestFiledForLonger(t *testing.T) {
	for name, change := range map[string]func(*revocation.Entry){
		"as it is":        func(*revocation.Entry) {},
		"for less":        func(e *revocation.Entry) { e.NotAfter = e.NotAfter.Add(-time.Minute) },
		"without its key": func(e *revocation.Entry) { e.Key = "" },
	} {
		w := asDesk(t)
		targets := janes(t, w)
		e := targets[0].Entry
		change(&e)
		shard := revocation.Shard{Name: revocation.PolicyPrefix + "1", Entries: []revocation.Entry{e}}
		w.Server.Put("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", shard.Policy())
		stop, err := NewStopping(w.Env).LookUp(t.Context(), "", targets, nil)
		already := 0
		if e == targets[0].Entry {
			already = 1
		}
		if err != nil || len(stop.Already) != already || len(stop.Targets) != 1-already {
			t.Errorf("%s: %+v, %v", name, stop, err)
		}
	}
}

// TestMayNotRevoke: without an approver, or without the right to ask it, a caller who may not change policies is
// told whom to ask. The control plane's certificates are not the approver's to revoke.
func TestMayNotRevoke(t *testing.T) {
	for _, forbidden := range []string{"create revocations", "list revocations"} {
		w := asDesk(t)
		w.Server.Forbid("create validatingadmissionpolicies", forbidden)
		targets := janes(t, w)
		_, err := NewStopping(w.Env).LookUp(t.Context(), "", targets, nil)
		if !errors.Is(err, errMayNot) || !strings.Contains(hinting.Of(err), "have a cluster admin run the command") {
			t.Errorf("%s: %v", forbidden, err)
		}
	}
	w := asDesk(t)
	targets := janes(t, w)
	targets[0].User = "system:kube-scheduler"
	if stop, err := NewStopping(w.Env).LookUp(t.Context(), "", targets, []string{RiskAdmin}); err != nil || stop.Err() == nil {
		t.Errorf("a part of the control plane: %+v, %v", stop, err)
	}
}

// TestLiftMeanwhile: what the approver puts on the list while it is lifted is lifted, too.
func TestLiftMeanwhile(t *testing.T) {
	w := asDesk(t)
	s := NewStopping(w.Env)
	targets := janes(t, w)
	revoke(t, s, targets)
	w.Server.Allow("create validatingadmissionpolicies", "list validatingadmissionpolicies")
	shard := revocation.Shard{Name: revocation.PolicyPrefix + "1", Entries: []revocation.Entry{targets[0].Entry}}
	w.Server.Before(func(right string) flowtest.Fate {
		if right == "delete revocations" {
			w.Server.Put("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", shard.Policy())
		}
		return 0
	})
	_, err := s.Lift(t.Context(), "", []string{targets[0].Certificate})
	list, unread := s.List(t.Context(), "")
	if _, on := list.Find(targets[0].Certificate, ""); err != nil || unread != nil || on {
		t.Errorf("lift: %v, %v; on the list: %t", err, unread, on)
	}
}

// TestLiftUnread: who may not read the Revocations cannot lift what the approver would put back. Where the cluster
// has none, they can.
func TestLiftUnread(t *testing.T) {
	for _, served := range []bool{true, false} {
		w := desk(t)
		s := NewStopping(w.Env)
		targets := janes(t, w)
		revoke(t, s, targets)
		w.Server.Forbid("list revocations")
		if served {
			w.Server.Fail(http.StatusOK, "get /apis/"+clusterapi.GroupVersion.String())
		}
		_, err := s.Lift(t.Context(), "", []string{targets[0].Certificate})
		list, unread := s.List(t.Context(), "")
		if _, on := list.Find(targets[0].Certificate, ""); unread != nil || on != served || (err == nil) == served ||
			served && !strings.Contains(hinting.Of(err), "would put back") {
			t.Errorf("served %v: %v (%s), on the list: %v, %v", served, err, hinting.Of(err), on, unread)
		}
	}
}

// TestBroken: a policy that is broken is named, with what mends it, to whoever may read it.
func TestBroken(t *testing.T) {
	w := desk(t)
	s := NewStopping(w.Env)
	if l, err := s.Broken(t.Context(), ""); err != nil || l.Err() != nil {
		t.Errorf("without a policy: %v, %v", err, l.Err())
	}
	w.Server.Put("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		flowtest.Object{"metadata": flowtest.Object{"name": revocation.PolicyPrefix + "1"}})
	l, err := s.Broken(t.Context(), "")
	if mend := l.Err(); err != nil || !errors.Is(mend, revocation.ErrUnreadable) ||
		!strings.Contains(hinting.Of(mend), "revocation set") {
		t.Errorf("a broken one: %v, %v", err, mend)
	}
	w.Server.Forbid("list validatingadmissionpolicies", "get validatingadmissionpolicies")
	if l, err := s.Broken(t.Context(), ""); err != nil || l.Err() != nil {
		t.Errorf("who may not read it: %v, %v", err, l.Err())
	}
}

// TestFromRoster: the certificate that the roster has of a token is found by the token and by its owner.
func TestFromRoster(t *testing.T) {
	w := desk(t)
	hash, key := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	putToken(w.Server, "4711", flowtest.Object{"state": "Active", "owner": "amy", "groups": []string{"dev"}}, flowtest.Object{"certificate": hash, "key": key, "notAfter": "2099-01-01T00:00:00Z"})
	for name, sought := range map[string]Sought{"token": {Token: "4711"}, "user": {User: "amy"}} {
		all, err := NewStopping(w.Env).Targets(t.Context(), "", sought)
		if err != nil || len(all) != 1 || all[0].Certificate != hash || all[0].Key != key || all[0].User != "amy" {
			t.Errorf("by its %s: %+v, %v", name, all, err)
		}
	}
	r, err := NewRevocations(w.Env).LookUp(t.Context(), "", "amy", nil, nil)
	if err != nil || len(r.Certificates) != 1 || !r.Stops() {
		t.Fatalf("what amy has: %+v, %v", r, err)
	}
	// amy may have the token from somebody else, who had other groups
	if target, words := r.Stop.Targets[0], strings.Join(r.Stop.Warnings, "\n"); target.Token != "4711" || target.Groups != nil ||
		!strings.Contains(words, "groups that are not known") {
		t.Errorf("%+v, warnings %s", target, words)
	}
}

// TestFromRosterAndHere: of a certificate that the roster and this computer know, what is in it counts: it is found by
// its serial number, and its groups are known.
func TestFromRosterAndHere(t *testing.T) {
	w := desk(t)
	en := w.Enroll("prod", "amy", "system:masters")
	chain, err := w.Env.Enrollments().Certificate(en)
	must.OK(t, err)
	e := revocation.EntryOf(chain[0])
	putToken(w.Server, "4711", flowtest.Object{"state": "Active", "owner": "joe"}, flowtest.Object{"certificate": e.Certificate, "key": e.Key, "notAfter": e.NotAfter})
	for name, sought := range map[string]Sought{"token": {Token: "4711"}, "serial": {Serial: chain[0].SerialNumber.Text(16), User: "amy"},
		"user": {User: "amy", Token: "4711"}} {
		all, err := NewStopping(w.Env).Targets(t.Context(), "", sought)
		if err != nil || len(all) != 1 || all[0].Entry != e || all[0].Token != "" ||
			!slices.Equal(all[0].Groups, []string{"system:masters"}) {
			t.Errorf("by its %s: %+v, %v", name, all, err)
		}
	}
}

// TestFiledWords: the names of users are on one line and short enough for a Revocation.
func TestFiledWords(t *testing.T) {
	w := asDesk(t)
	s := NewStopping(w.Env)
	targets := janes(t, w)
	targets[0].User = "a\nb" + strings.Repeat("c", 300)
	revoke(t, s, targets)
	all, err := s.Filed(t.Context(), "")
	if err != nil || len(all) != 1 || all[0].Spec.User != revocation.Brief(targets[0].User) {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestMayNotLift: who may not lift a revocation, or read the list, is told what to do.
func TestMayNotLift(t *testing.T) {
	w := asDesk(t)
	s := NewStopping(w.Env)
	targets := janes(t, w)
	revoke(t, s, targets)
	w.Server.Allow("create validatingadmissionpolicies", "list validatingadmissionpolicies")
	c, _, err := s.open(t.Context(), "")
	must.OK(t, err)
	w.Server.Forbid("delete revocations")
	_, err = c.unfile(t.Context(), []string{targets[0].Certificate})
	if !isForbidden(err) || strings.Contains(hinting.Of(err), "--as") {
		t.Errorf("who may not: %v, hint %q", err, hinting.Of(err))
	}
	w.Server.Forbid("list validatingadmissionpolicies", "get validatingadmissionpolicies")
	if _, err := s.List(t.Context(), ""); !isForbidden(err) || !strings.Contains(hinting.Of(err), "the help desk may read") {
		t.Errorf("who may not read the list: %v, hint %q", err, hinting.Of(err))
	}
}

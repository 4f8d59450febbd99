package desk

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// janes is the certificate that jane has in [desk]'s world.
func janes(t testing.TB, w *flowtest.World) []Target {
	t.Helper()
	targets, err := NewStopping(w.Env).Targets(t.Context(), "", Sought{User: "jane"})
	must.OK(t, err)
	return targets
}

// revoke revokes certificates, and does not wait for the approver.
func revoke(t *testing.T, s Stopping, targets []Target) {
	t.Helper()
	stop, err := s.LookUp(t.Context(), "", targets, nil)
	if stop.Patience = time.Millisecond; err == nil {
		err = s.Stop(t.Context(), "", &stop, "lost")
	}
	must.OK(t, err)
}

// unversioned are the failures in which a cluster does not tell its version, and goes on.
func unversioned() []string {
	return slices.DeleteFunc(flowtest.Failing("get /version"), func(f string) bool { return strings.HasPrefix(f, "gone") })
}

// TestStop: a certificate is put on the cluster's list, and lifted again.
func TestStop(t *testing.T) {
	failing := flowtest.Failing("create", "list", "get")
	// [TestLookUp] tries these.
	looks := flowtest.Failing("create selfsubjectaccessreviews", "get /version", "list clusterrole", "list role")
	var targets []Target
	flowtest.UseCase{Name: "stop", Skips: looks, World: func(t testing.TB) *flowtest.World {
		w := desk(t)
		targets = janes(t, w)
		return w
	}, Passes: flowtest.Failing("create configmaps"),
		Leaves: append(failing, "ctrl-c"), Resumes: true,
		Do: func(ctx context.Context, w *flowtest.World, _ hsm.Prompter) error {
			s := NewStopping(w.Env)
			stop, err := s.LookUp(ctx, "", targets, nil)
			if err != nil {
				return err
			}
			if err := s.Stop(ctx, "", &stop, "lost"); err != nil {
				return err
			}
			if stop.Done == nil || !stop.Done.InForce && stop.Done.Note == "" {
				return fmt.Errorf("done: %+v", stop.Done)
			}
			return nil
		},
		Done: func(t testing.TB, w *flowtest.World) {
			l, err := NewStopping(w.Env).List(t.Context(), "")
			if err != nil || l.Err() != nil {
				t.Fatal(err, l.Err())
			}
			for e := range l.All() {
				if e.User != "jane" || e.By != "admin" || e.Reason != "lost" || e.Key == "" || e.NotAfter.IsZero() {
					t.Errorf("%+v", e)
				}
				if same, err := l.Named(e.Certificate[:12]); err != nil || same != e {
					t.Errorf("by its first digits: %+v, %v", same, err)
				}
			}
		}}.Try(t)
}

// TestEndedGo: each change of the list drops what has ended by the cluster's clock.
func TestEndedGo(t *testing.T) {
	live := revocation.Entry{Certificate: strings.Repeat("ab", 32)}
	ended := revocation.Entry{Certificate: strings.Repeat("cd", 32), NotAfter: time.Unix(1_000_000_000, 0)}
	for name, do := range map[string]func(Stopping) error{
		"lift": func(s Stopping) error { _, err := s.Lift(t.Context(), "", []string{live.Certificate}); return err },
		"set": func(s Stopping) error {
			_, err := s.Configure(t.Context(), "", revocation.Settings{FailClosed: true})
			return err
		},
	} {
		w := desk(t)
		_, l, err := NewStopping(w.Env).open(t.Context(), "")
		if err == nil {
			_, err = l.Revoke(t.Context(), time.Time{}, live, ended)
		}
		if err == nil {
			err = do(NewStopping(w.Env))
		}
		list, rerr := NewStopping(w.Env).List(t.Context(), "")
		if err != nil || rerr != nil {
			t.Fatal(err, rerr)
		}
		if _, on := list.Find(ended.Certificate, ""); on {
			t.Errorf("%s: what has ended is on the list", name)
		}
	}
}

// TestLift: lifted is what is on the list, and only that.
func TestLift(t *testing.T) {
	w := desk(t)
	s := NewStopping(w.Env)
	targets := janes(t, w)
	if len(targets) != 1 || targets[0].Groups[0] != "dev" || targets[0].Request != "jane-2" {
		t.Fatalf("%+v", targets)
	}
	hash := targets[0].Certificate
	if _, err := s.Lift(t.Context(), "", []string{hash}); !errors.Is(err, revocation.ErrNotRevoked) ||
		!strings.Contains(hinting.Of(err), "revocation list") {
		t.Errorf("not revoked: %v", err)
	}
	stop := Stop{Targets: targets}
	if err := s.Stop(t.Context(), "", &stop, ""); err != nil || !stop.Done.InForce {
		t.Fatalf("%v, %+v", err, stop.Done)
	}
	again, err := s.LookUp(t.Context(), "", targets, nil)
	if err != nil || len(again.Already) != 1 || len(again.Targets) != 0 {
		t.Errorf("revoked already: %+v, %v", again, err)
	}
	if l, err := s.List(t.Context(), ""); err != nil {
		t.Error(err)
	} else if e, err := l.Named(hash[:16] + "…"); err != nil || e.Certificate != hash {
		t.Errorf("as a refusal names it: %+v, %v", e, err)
	}
	if in, err := s.Configure(t.Context(), "", revocation.Settings{FailClosed: true}); err != nil || !in.InForce {
		t.Errorf("configure: %+v, %v", in, err)
	}
	if in, err := s.Lift(t.Context(), "", []string{hash}); err != nil || !in.InForce {
		t.Errorf("lift: %+v, %v", in, err)
	}
	l, err := s.List(t.Context(), "")
	if _, on := l.Find(hash, ""); err != nil || on || !l.Settings.FailClosed {
		t.Errorf("%+v, %v", l, err)
	}
	for _, digits := range []string{hash, "", "zz"} {
		if _, err := l.Named(digits); err == nil {
			t.Errorf("%q is on the list", digits)
		}
	}
}

// TestOldCluster: a cluster whose policies see no certificates revokes none. One that does not
// tell its version gets a warning.
func TestOldCluster(t *testing.T) {
	w := desk(t)
	targets := janes(t, w)
	for minor, old := range map[string]bool{"30": true, "31+": true, "32": false, "": false} {
		w.Server.Minor(minor)
		stop, err := NewStopping(w.Env).LookUp(t.Context(), "", targets, nil)
		if old && (!errors.Is(err, errTooOld) || hinting.Of(err) == "") || !old && err != nil {
			t.Errorf("1.%s: %v", minor, err)
		}
		if warned := strings.Contains(strings.Join(stop.Warnings, ""), "version is not known"); warned != (minor == "") {
			t.Errorf("1.%s: warnings %q", minor, stop.Warnings)
		}
		r, err := NewRevocations(w.Env).LookUp(t.Context(), "", "jane", nil, nil)
		if err != nil || (r.Stop == nil) != old {
			t.Errorf("1.%s, all access: %+v, %v", minor, r.Stop, err)
		}
	}
}

// TestTargets: a certificate is found by its file, hash, serial number and issuer, user and
// token, also where the cluster shows nothing.
func TestTargets(t *testing.T) {
	w := desk(t)
	s := NewStopping(w.Env)
	mine := janes(t, w)
	leaf := w.Server.Issued("jane-2")
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	ca := pem.EncodeToMemory(&pem.Block{Type: "OTHER"})
	for name, c := range map[string]struct {
		sought Sought
		want   string // hash, or words of the error
	}{
		"file":           {Sought{PEM: append(ca, leaf...)}, mine[0].Certificate},
		"hash":           {Sought{Fingerprint: revocation.CertificatePrefix + mine[0].Certificate}, mine[0].Certificate},
		"of another":     {Sought{Fingerprint: mine[0].Certificate, User: "joe"}, "does not fit what else was given"},
		"unknown hash":   {Sought{Fingerprint: strings.Repeat("cd", 32), Until: later}, strings.Repeat("cd", 32)},
		"any token":      {Sought{Token: "piv:slot=9a"}, "has no serial number"},
		"no such token":  {Sought{Token: "4712"}, "no live certificate is known"},
		"no such number": {Sought{Serial: "0xffff"}, "no live certificate is known"},
		"no number":      {Sought{Serial: "x"}, "is not a serial number"},
		"no hash":        {Sought{Fingerprint: "beef"}, "is not the SHA-256"},
		"no PEM":         {Sought{PEM: []byte("hello")}, "there is no client certificate"},
		"bad PEM":        {Sought{PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})}, "cannot be read"},
	} {
		got, err := s.Targets(t.Context(), "", c.sought)
		if bad := c.sought.Check(); bad != nil && (err == nil || bad.Error() != err.Error()) {
			t.Errorf("%s: %v and then %v", name, bad, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && (len(got) != 1 || got[0].Certificate != c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got := revocation.SerialNumbers("0A:ff"); !slices.Equal(got, []string{"2815"}) {
		t.Errorf("a serial number: %q", got)
	}
	if got := revocation.SerialNumbers("10"); !slices.Equal(got, []string{"10", "16"}) {
		t.Errorf("a serial number that both bases have: %q", got)
	}
}

// TestStopRefusals: what would have no effect or lock somebody out is refused, unless the risk
// is accepted.
func TestStopRefusals(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		target Target
		risk   string
		words  string
	}{
		"own":      {Target{Entry: revocation.Entry{Certificate: hash, User: "me"}}, RiskOwn, "the one that you use"},
		"masters":  {Target{Groups: []string{"system:masters"}}, RiskAdmin, "may still delete the policies"},
		"part":     {Target{Entry: revocation.Entry{User: "system:kube-scheduler"}}, RiskAdmin, "belongs to the control plane"},
		"node":     {Target{Entry: revocation.Entry{User: "system:node:n"}, Groups: []string{"system:nodes"}}, "", "the policies never refuse nodes"},
		"recovery": {Target{Groups: []string{revocation.RecoveryGroup}}, "", "which the policies never refuse"},
		"ended":    {Target{Entry: revocation.Entry{NotAfter: time.Now().Add(-time.Hour)}}, "", "has ended already"},
		"fine":     {Target{Groups: []string{"dev"}}, "", ""},
	} {
		own := hash
		if c.target.Certificate == "" {
			c.target.Certificate, own = strings.Repeat("cd", 32), hash
		}
		var s Stop
		me := csr.Identity{At: time.Now(), Extra: map[string][]string{revocation.CredentialID: {revocation.CertificatePrefix + own}}}
		s.judge(c.target, revocation.Settings{}, me, nil)
		err := s.Err()
		if warned := strings.Contains(strings.Join(s.Warnings, ""), "groups that are not known"); warned != (c.target.Groups == nil) {
			t.Errorf("%s: warnings %q", name, s.Warnings)
		}
		if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) ||
			c.risk != "" && !strings.Contains(hinting.Of(err), "--accept-risk="+c.risk) {
			t.Errorf("%s: %v, hint %q", name, err, hinting.Of(err))
		}
		if c.risk == "" && hinting.Of(err) != "" {
			t.Errorf("%s: nobody can accept that, and the hint is %q", name, hinting.Of(err))
		}
		s = Stop{}
		s.judge(c.target, revocation.Settings{}, me, []string{RiskOwn, RiskAdmin})
		if (s.Err() == nil) != (c.risk != "" || c.words == "") {
			t.Errorf("%s, accepted: %v", name, s.Err())
		}
	}
}

// TestTrial: where nobody is refused, the trial says so. It leaves nothing behind.
func TestTrial(t *testing.T) {
	w := desk(t)
	w.Server.Signs(false)
	before := w.Server.Names(roleBindings)
	trial := NewTrial(w.Env)
	trial.patience = 0
	steps, err := trial.Run(t.Context(), "")
	if err != nil || len(steps) != 6 || !steps[0].OK || steps[2].OK || TrialErr(steps) == nil || TrialErr(steps[:2]) != nil {
		t.Errorf("%+v, %v, %v", steps, err, TrialErr(steps))
	}
	l, lerr := NewStopping(w.Env).List(t.Context(), "")
	for e := range l.All() {
		t.Errorf("left: %+v", e)
	}
	if after := w.Server.Names(roleBindings); lerr != nil || !slices.Equal(after, before) ||
		len(w.Server.Names("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings")) > 0 {
		t.Errorf("left %q, %v", after, lerr)
	}
}

// TestLedgerAPI: policies are read and written as package revocation wants it: one that
// somebody else has changed, or made, is a conflict.
func TestLedgerAPI(t *testing.T) {
	w := desk(t)
	c, err := openObjects(t.Context(), NewStopping(w.Env).access, "")
	must.OK(t, err)
	api := ledgerAPI{c}
	policy := revocation.Shard{Name: revocation.PolicyPrefix + "1"}.Policy()
	must.OK(t, api.Create(t.Context(), policy))
	if err := api.Create(t.Context(), policy); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created twice: %v", err)
	}
	all, err := api.List(t.Context(), "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d policies, %v", len(all), err)
	}
	if err := api.Replace(t.Context(), all[0]); err != nil {
		t.Error(err)
	}
	w.Server.Before(func(string) flowtest.Fate { return 409 })
	if err := api.Replace(t.Context(), all[0]); !apierrors.IsConflict(err) {
		t.Errorf("changed by others: %v", err)
	}
	w.Server.Before(func(string) flowtest.Fate { return 404 })
	if _, err := api.List(t.Context(), "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"); err == nil {
		t.Error("a cluster that does not serve policies lists them")
	}
}

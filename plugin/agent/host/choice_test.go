package host

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// spareRig is a rig whose enrollment has a spare on another token.
type spareRig struct {
	*rig
	second *hsmtest.FakeToken
	spare  enrollment.Enrollment
}

func newSpareRig(t *testing.T, life time.Duration) *spareRig {
	r := &spareRig{rig: newRig(t, rigOptions{idle: true})}
	r.second = r.fake.Add(hsmtest.FakeOptions{Label: "second", PIN: pin})
	slot := r.generate(r.second)
	hash, err := hsm.Fingerprint(slot.Key.Public)
	check(t, err)
	r.spare = r.e
	r.spare.Name, r.spare.SpareOf, r.spare.SpareOfKey = "prod-spare", "prod", r.e.KeyHash
	r.spare.Key, r.spare.KeyHash = slot.URI, hash
	r.spare = r.save(r.spare)
	check(t, r.store.SaveCertificate(r.spare, []*x509.Certificate{r.api.Certificate(t, slot.Key.Public, "alice", life)}))
	r.serve(Options{})
	return r
}

// lost unplugs a token, and has the agent notice at once.
func (r *spareRig) lost(h *hsmtest.FakeToken) {
	r.t.Helper()
	h.Unplug()
	r.mustAgent(func(a *agent) { a.locks.token(a.tokens.Of(h.Info().URI()), message.LockRemoved) })
}

func (r *spareRig) counts() (first, second int) { return r.token.Signatures(), r.second.Signatures() }

// signatures expects how many signatures the tokens have made.
func (r *spareRig) signatures(what string, first, second int) {
	r.t.Helper()
	if a, b := r.counts(); a != first || b != second {
		r.t.Errorf("%s: the tokens have made %d and %d signatures, not %d and %d", what, a, b, first, second)
	}
}

// TestSpareSigns: whichever token is there signs; if both are, the one used last, also for the next agent.
// One PIN goes with each change, and a session lives on.
func TestSpareSigns(t *testing.T) {
	r := newSpareRig(t, time.Hour)
	one, other := r.counts()
	s, err := r.prepare(r.dial(), process.This(), hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, err)
	r.signatures("both are there", one+1, other)
	if code, body := r.get(s, "/version"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	r.lost(r.token)
	if code, _ := r.get(s, "/version"); code != 401 {
		t.Fatalf("without its token a request is answered with %d", code)
	}
	again := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.signatures("the first is gone", one+1, other+1)
	for what, s := range map[string]message.Session{"of before": s, "new": again} {
		if code, body := r.get(s, "/version"); code != 200 {
			t.Errorf("the session %s: %d %s", what, code, body)
		}
	}
	r.token.Plug()
	r.end()
	r.serve(Options{})
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.signatures("both are there again", one+1, other+2)
	r.lost(r.second)
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.signatures("the second is gone", one+2, other+2)
	r.lost(r.token)
	_, err = r.prepare(r.dial(), caller(2), hsmtest.NewScript(t))
	if !errors.Is(err, hsm.ErrNoToken) || !strings.Contains(hint.Of(err), r.second.Info().URI().Identity().String()) {
		t.Errorf("without a token: %v; hint: %s", err, hint.Of(err))
	}
	var keys []string
	for _, a := range r.recordsOf(audit.Signature) {
		if a.Enrollment != "prod" {
			t.Errorf("a signature is on record for %q", a.Enrollment)
		}
		keys = append(keys, a.Key)
	}
	if got, want := strings.Join(keys, " "), strings.Join([]string{r.e.KeyHash, r.spare.KeyHash, r.spare.KeyHash,
		r.e.KeyHash}, " "); got != want {
		t.Errorf("the audit log has signatures by %s, not %s", got, want)
	}
}

// TestSpareExpired: a key whose certificate has ended does not stand in the other's way.
func TestSpareExpired(t *testing.T) {
	r := newSpareRig(t, -time.Minute)
	check(t, r.store.NoteUsed("prod", "prod-spare"))
	one, other := r.counts()
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.signatures("the spare has expired", one+1, other)
	r.lost(r.token)
	_, err := r.prepare(r.dial(), caller(2), hsmtest.NewScript(t))
	if !errors.Is(err, message.ErrCertificateExpired) || !strings.Contains(err.Error(), "prod-spare") {
		t.Errorf("with the expired spare alone: %v", err)
	}
}

// TestSpareForBroken: a key that cannot be found on its token does not stand in the other's way, and is told of where
// it is the only one.
func TestSpareForBroken(t *testing.T) {
	r := newSpareRig(t, time.Hour)
	r.token.Fail(hsmtest.OpSlots, hsm.ErrModule)
	one, other := r.counts()
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.signatures("the first is broken", one, other+1)
	r.lost(r.second)
	r.token.Fail(hsmtest.OpSlots, hsm.ErrModule)
	if _, err := r.prepare(r.dial(), caller(2), hsmtest.NewScript(t)); !errors.Is(err, hsm.ErrModule) {
		t.Errorf("with the broken one alone: %v", err)
	}
}

// TestSparePolicies: the policies of all keys of a context count, whichever signs, and by the spare's own name too.
func TestSparePolicies(t *testing.T) {
	r := newSpareRig(t, time.Hour)
	r.spare.Policy = consent.Always
	r.spare = r.save(r.spare)
	r.mustAgent(func(a *agent) {
		for _, e := range []enrollment.Enrollment{r.e, r.spare} {
			if p, _, err := a.targets.versions.Of(e); err != nil || len(p) != 1 || p[0].Mode != consent.Always {
				t.Errorf("the policies of %s are %v, %v", e.Name, p, err)
			}
		}
		first, err := a.targets.target("prod")
		check(t, err)
		r.spare.Policy = consent.Writes
		r.spare = r.save(r.spare)
		if now, err := a.targets.target("prod"); err != nil || now == first || now.policy[0].Mode != consent.Writes {
			t.Errorf("a change of the spare's policy is not followed: %v", err)
		}
	})
}

// TestSpareFollows: where the record of an enrollment has changed, the key of its spare signs its own again at its
// next use, by a PIN that is typed for that even if the token is unlocked, and the prompt shows the change. Without
// that it does not sign in.
func TestSpareFollows(t *testing.T) {
	r := newSpareRig(t, time.Hour)
	r.lost(r.token)
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.e.Policy, r.e.Cluster.TLSServerName = consent.Writes, "127.0.0.1"
	r.e = r.save(r.e)
	if _, err := r.prepare(r.dial(), caller(2), hsmtest.NewScript(t, hsmtest.Cancel())); !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("without the PIN: %v", err)
	}
	script := hsmtest.NewScript(t, hsmtest.PIN(pin))
	_, err := r.prepare(r.dial(), caller(3), script)
	check(t, err)
	asked := script.PINs()[0]
	if shown := fmt.Sprint(asked.Purpose.Fields); !asked.Typed || !strings.Contains(shown, "prod-spare") ||
		!strings.Contains(shown, "TLS name") || !strings.Contains(shown, "now writes") {
		t.Errorf("asked %+v", asked)
	}
	now, err := r.store.Load("prod-spare")
	check(t, err)
	if _, err := now.Version(); err != nil || now.Policy != consent.Writes || now.Cluster.TLSServerName != "127.0.0.1" {
		t.Errorf("%+v, %v", now, err)
	}
	check(t, only(r.dial().Lock(t.Context())))
	again := hsmtest.NewScript(t, hsmtest.PIN(pin))
	_, err = r.prepare(r.dial(), caller(4), again)
	check(t, err)
	if asked := again.PINs()[0]; asked.Purpose.Action != "sign in" {
		t.Errorf("asked again %+v", asked)
	}
}

// TestSpareOfAnotherKey: a spare neither serves nor follows a record of another key in the place of the one that its key
// has signed to be a spare of, nor can it be detached from that one's policy while the agent runs.
func TestSpareOfAnotherKey(t *testing.T) {
	r := newSpareRig(t, time.Hour)
	r.lost(r.token)
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.e.Policy = consent.Always
	r.e = r.save(r.e)
	asks := func(what string, name string) {
		t.Helper()
		r.mustAgent(func(a *agent) {
			e, err := r.store.Load(name)
			check(t, err)
			if p, _, err := a.targets.versions.Of(e); err != nil || len(p) != 1 || p[0].Mode != consent.Always {
				t.Errorf("%s: the policies of %s are %v, %v", what, name, p, err)
			}
		})
	}
	asks("as it is", "prod-spare")

	third := r.fake.Add(hsmtest.FakeOptions{Label: "third", PIN: pin})
	slot := r.generate(third)
	hash, err := hsm.Fingerprint(slot.Key.Public)
	check(t, err)
	made := r.e
	made.Key, made.KeyHash, made.Policy, made.Signed = slot.URI, hash, consent.Session, enrollment.Signed{}
	made.Cluster.TLSServerName = "127.0.0.1"
	r.save(made)
	check(t, r.store.SaveCertificate(made, []*x509.Certificate{r.api.Certificate(t, slot.Key.Public, "alice", time.Hour)}))
	third.Unplug()
	_, err = r.prepare(r.dial(), caller(2), hsmtest.NewScript(t))
	if !errors.Is(err, enrollment.ErrUnsigned) || !strings.Contains(hint.Of(err), "kubehsm consent set prod-spare") {
		t.Errorf("%v; hint: %s", err, hint.Of(err))
	}
	asks("beside another record", "prod-spare")
	check(t, r.store.Delete("prod"))
	asks("left alone", "prod-spare")
	now, err := r.store.Load("prod-spare")
	check(t, err)
	if now.SpareOf = ""; only(now.Version()) == nil {
		t.Error("a spare is detached without its key")
	}
}

// TestSpareIsRemoved: without its record a spare does not serve.
func TestSpareIsRemoved(t *testing.T) {
	r := newSpareRig(t, time.Hour)
	r.lost(r.token)
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, r.store.Delete("prod-spare"))
	r.mustAgent(func(a *agent) { a.targets.follow() })
	_, err := r.prepare(r.dial(), caller(2), hsmtest.NewScript(t))
	if !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("without the spare's record: %v", err)
	}
}

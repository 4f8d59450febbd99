package overview

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// TestOf: from nothing to an enrollment whose token is unlocked, locked and pulled out, to one
// under way. Nobody is asked, and the token is not opened.
func TestOf(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
	w.Server.Signs(true)
	of := func(what string, good func(Status) bool) {
		t.Helper()
		w.Card.Before(func(_ context.Context, op hsmtest.Op) error {
			if op != hsmtest.OpInfo { // the agent looks whether a token that it holds is still there
				t.Errorf("%s: the token is used: %s", what, op)
			}
			return nil
		})
		defer w.Card.Before(nil)
		if s := Of(t.Context(), w.Env, time.Now()); !good(s) {
			t.Errorf("%s: %+v", what, s)
		}
		if s := Glance(t.Context(), w.Env, time.Now()); !good(s) {
			t.Errorf("%s, at a glance: %+v", what, s)
		}
	}
	of("nothing", func(s Status) bool {
		return s.Context != "" && s.Enrollment == "" && s.Lock == "" && s.Next.Command == "kubehsm enroll" &&
			len(s.Problems) == 0
	})
	flowtest.Agent(t, w.Env)
	o := enrolling.Options{Name: "prod-hsm", User: "jane", Groups: []string{"dev"}}
	_, err := enroll.NewEnroller(w.Env).Enroll(t.Context(), o, hsmtest.Typing(t, w.Card.PIN()), nil)
	must.OK(t, err)
	of("enrolled", func(s Status) bool {
		return s.Context == "prod-hsm" && s.Enrollment == "prod-hsm" && s.User == "jane" && s.Server == w.Server.URL &&
			s.Lock == Unlocked && s.Until.After(time.Now()) && len(s.Certificates) == 1 && len(s.Unfinished) == 0
	})
	must.OK(t, token.LockAgent(t.Context(), w.Env))
	of("locked", func(s Status) bool { return s.Lock == Locked && s.Until.IsZero() })

	stopped := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	other := enrolling.Options{Name: "other-hsm", User: "jane", Context: "Prod/EU west",
		Generate: hsm.GenerateOptions{Slot: "9c"}}
	_, err = enroll.NewEnroller(w.Env).Enroll(ctx, other, hsmtest.Typing(t, w.Card.PIN()), func(e enrolling.Event) {
		if e.Step == enrolling.StepKey && e.State == enrolling.StepDone {
			cancel(stopped)
		}
	})
	if err == nil {
		t.Fatal("the enrollment was not stopped")
	}
	of("one under way", func(s Status) bool {
		return len(s.Unfinished) == 1 && s.Unfinished[0].Waits == enrolling.StepRequest &&
			s.Next.Command == "kubehsm enroll --name other-hsm"
	})
}

// TestJSON: a script reads the next step as a command, and nothing where there is none.
func TestJSON(t *testing.T) {
	examine := Status{Next: Step{Deed: Examine, Command: "kubehsm doctor"}}
	for want, s := range map[string]Status{`"next":"kubehsm doctor"`: examine, "": {}} {
		b, err := json.Marshal(s)
		if err != nil || !strings.Contains(string(b), want) || want == "" && strings.Contains(string(b), "next") {
			t.Errorf("%s, %v", b, err)
		}
	}
	if b, err := (Step{Command: "x"}).MarshalText(); err != nil || string(b) != "x" {
		t.Errorf("%s, %v", b, err)
	}
}

// TestNext: what is to be done first.
func TestNext(t *testing.T) {
	due := enroll.Expiring{Name: "prod-hsm", NotAfter: time.Now().Add(time.Hour), Due: true}
	fine := enroll.Expiring{Name: "prod-hsm", NotAfter: time.Now().Add(1000 * time.Hour)}
	for want, s := range map[string]Status{
		"kubehsm enroll": {},
		"kubehsm enroll --name x": {Unfinished: []Unfinished{{Resume: "kubehsm enroll --name x"}},
			Certificates: []enroll.Expiring{due}},
		"kubehsm certificate renew prod-hsm": {Certificates: []enroll.Expiring{due}, Problems: []string{"x"}},
		"kubehsm doctor":                     {Certificates: []enroll.Expiring{fine}, Problems: []string{"x"}},
		"":                                   {Certificates: []enroll.Expiring{fine}},
	} {
		if got := s.next(time.Now()).Command; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestKeyDestroyed: once kubehsm has destroyed an enrollment's key, the next step is to enroll anew, and
// the command for that makes a new key.
func TestKeyDestroyed(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
	w.Server.Signs(true)
	flowtest.Agent(t, w.Env)
	o := enrolling.Options{Name: "prod-hsm", User: "jane", Groups: []string{"dev"}}
	if _, err := enroll.NewEnroller(w.Env).Enroll(t.Context(), o, hsmtest.Typing(t, w.Card.PIN()), nil); err != nil {
		t.Fatal(err)
	}
	en, err := w.Env.Enrollments().Load("prod-hsm")
	must.OK(t, err)
	keys := token.Keys{Env: w.Env}
	l, done, err := keys.Find(t.Context(), en.Key, hsmtest.NewScript(t))
	if err != nil || len(l.Commands) != 1 || l.Commands[0] != en.Restart(hsm.URI{}) {
		t.Fatalf("%+v, %v", l, err)
	}
	must.OK(t, errors.Join(keys.Delete(t.Context(), en.Key, l, hsmtest.Typing(t, w.Card.PIN())), done()))
	s := Of(t.Context(), w.Env, time.Now())
	if s.Next.Deed != Resume || s.Next.Command != "kubehsm enroll --name prod-hsm" || len(s.Unfinished) != 1 {
		t.Errorf("%+v", s)
	}
	if _, err := enroll.NewEnroller(w.Env).Enroll(t.Context(), enrolling.Options{Name: "prod-hsm"},
		hsmtest.Typing(t, w.Card.PIN()), nil); err != nil {
		t.Fatal(err)
	}
	if now, err := w.Env.Enrollments().Load("prod-hsm"); err != nil || now.KeyHash == en.KeyHash || now.User != "jane" {
		t.Errorf("%+v, %v", now, err)
	}
	if s := Of(t.Context(), w.Env, time.Now()); len(s.Unfinished) != 0 || s.Next.Deed == Resume {
		t.Errorf("with its new key: %+v", s)
	}
}

// TestSeen: what tokens tell of an enrollment and its spare: a problem, what to do first, and whether the token is
// there. What is not known is not said.
func TestSeen(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	must.OK(t, err)
	hash, err := hsm.Fingerprint(public)
	must.OK(t, err)
	of := func(name, spareOf, serial string) enrollment.Enrollment {
		key := hsm.URI{Scheme: hsm.SchemePIV, Serial: serial, Slot: "9a"}
		return enrollment.Enrollment{Name: name, SpareOf: spareOf, Key: key, KeyHash: hash, Context: "prod", User: "jane"}
	}
	card := func(serial string, slots ...hsm.Slot) hsm.View {
		return hsm.View{Info: hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: serial, Initialized: true,
			PIN: hsm.PINState{Retries: 3}}, Slots: slots}
	}
	whole := hsm.Slot{ID: "9a", Key: &hsm.Key{Public: public}}
	blocked := card("7", whole)
	blocked.Info.PIN = hsm.PINState{Locked: true, Retries: -1}
	stopped := hint.With(errors.New("the service is not running"), "start it")
	anew := "kubehsm enroll --name prod-hsm --restart --context prod --user jane"
	unplugged := "7, is not plugged in; plug it in"
	for what, c := range map[string]struct {
		lock    Lock
		here    []hsm.View
		failed  error // error of the smart card service
		problem string
		next    string
		now     Lock
	}{
		"well":              {Locked, []hsm.View{card("7", whole)}, nil, "", "", Locked},
		"PIN is blocked":    {Locked, []hsm.View{blocked}, nil, "is blocked", "kubehsm doctor", Locked},
		"unplugged":         {Locked, []hsm.View{card("8")}, nil, unplugged, "kubehsm doctor", Absent},
		"pulled out":        {Unlocked, nil, nil, unplugged, "kubehsm doctor", Absent},
		"spare is here":     {Locked, []hsm.View{card("9", whole)}, nil, "", "", Locked},
		"key is destroyed":  {Unlocked, []hsm.View{card("7")}, nil, "no longer on the token; make a new key", anew, Unlocked},
		"service stopped":   {Locked, nil, stopped, "not seen: the service is not running; start it", "kubehsm doctor", Unknown},
		"card is in use":    {Locked, nil, hsm.ErrBusy, "", "", Locked},
		"no answer yet":     {Locked, nil, hsm.ErrPending, "", "", Locked},
		"nothing connected": {Locked, nil, hsm.ErrNoToken, "no such token", "kubehsm doctor", Unknown},
	} {
		var failed []hsm.Problem
		if c.failed != nil {
			failed = []hsm.Problem{{Source: hsm.SchemePIV, Err: c.failed}}
		}
		s := Status{Lock: c.lock, Keys: []enrollment.Enrollment{of("prod-hsm", "", "7"), of("prod-spare", "prod-hsm", "9")}}.
			Seen(c.here, failed)
		said := strings.Join(s.Problems, "\n")
		if !strings.Contains(said, c.problem) || (c.problem == "") != (said == "") || s.Next.Command != c.next ||
			s.Lock != c.now {
			t.Errorf("%s: %s; %+v; %q", what, s.Lock, s.Next, said)
		}
		if s := (Status{}).Seen(c.here, failed); len(s.Problems) > 0 || s.Next != (Step{}) {
			t.Errorf("%s, without an enrollment: %+v", what, s)
		}
	}
}

// TestPulledOutOnce: what the agent failed at because the token was pulled out is not a second problem.
func TestPulledOutOnce(t *testing.T) {
	e := enrollment.Enrollment{Name: "prod-hsm", Key: hsm.URI{Scheme: hsm.SchemePIV, Serial: "7", Slot: "9a"}}
	s := Status{Keys: []enrollment.Enrollment{e}, Problems: []string{"the log is full"}}
	s.lock(message.Status{Tokens: []message.TokenStatus{{URI: e.Key.TokenOnly(), Problem: "no such token"}}}, e.Key)
	if len(s.Problems) != 2 || s.Lock != Unknown {
		t.Fatalf("what the agent says: %s, %q", s.Lock, s.Problems)
	}
	s = s.Seen(nil, nil)
	if len(s.Problems) != 2 || s.Problems[0] != "the log is full" || !strings.Contains(s.Problems[1], "plug it in") ||
		s.Lock != Absent {
		t.Errorf("pulled out: %s, %q", s.Lock, s.Problems)
	}
}

// TestLook: the look at tokens asks nobody, and tells that the token was pulled out.
func TestLook(t *testing.T) {
	w := flowtest.NewWorld(t, hsm.SchemePIV, hsmtest.FakeOptions{}, "jane", "dev")
	w.Server.Signs(true)
	flowtest.Agent(t, w.Env)
	o := enrolling.Options{Name: "prod-hsm", User: "jane", Groups: []string{"dev"}}
	if _, err := enroll.NewEnroller(w.Env).Enroll(t.Context(), o, hsmtest.Typing(t, w.Card.PIN()), nil); err != nil {
		t.Fatal(err)
	}
	w.Card.Before(func(_ context.Context, op hsmtest.Op) error {
		if op == hsmtest.OpUnlock || op == hsmtest.OpSign {
			t.Errorf("a look takes %s", op)
		}
		return nil
	})
	if s := Look(t.Context(), w.Env, time.Now()); s.Lock != Unlocked || len(s.Problems) > 0 {
		t.Errorf("%+v", s)
	}
	w.Card.Unplug()
	if s := Look(t.Context(), w.Env, time.Now()); s.Lock == Unlocked || len(s.Problems) == 0 || s.Next.Deed != Examine {
		t.Errorf("pulled out: %+v", s)
	}
}

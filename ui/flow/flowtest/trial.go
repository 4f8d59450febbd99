package flowtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/test/must"
)

// UseCase is tried as it should be, and then with a failure at each of its steps: at
// every operation of the token, every question and every request. After a failure,
// everything is as it was before or as it is when all is done, and no PIN try is spent.
type UseCase struct {
	Name string
	// World sets the scene, anew for every try.
	World func(t testing.TB) *World
	// Answers are what the person says, in order.
	Answers []hsmtest.Answer
	// Do is what is tried.
	Do func(ctx context.Context, w *World, p hsm.Prompter) error
	// Done, if not nil, looks at what it did.
	Done func(t testing.TB, w *World)
	// Passes are the failures in spite of which the use case succeeds. Each is the beginning
	// of a failure's name, as in "forbidden: list secrets", or after "=" the whole name.
	Passes []string
	// Skips are the failures that are not tried, named as in Passes.
	Skips []string
	// Until, if not "", is the last step at which something fails, as in "create secrets".
	Until string
	// Leaves are the failures after which something is left, named as in Passes. A test of
	// its own looks at what is left.
	Leaves []string
	// Says has the errors that differ from the usual error of a failure, by the beginning
	// of the failure's name.
	Says map[string]error
	// Resumes says that the use case succeeds when it is run again after a failure.
	Resumes bool
}

// Failing names all failures of the requests named but ctrl-c, for [UseCase.Passes].
func Failing(rights ...string) (all []string) {
	for _, f := range failures {
		for _, r := range rights {
			if f.kind == "request" && f.name != "ctrl-c" {
				all = append(all, f.name+": "+r)
			}
		}
	}
	return all
}

// step is one thing that a use case does.
type step struct {
	kind string // "token", "prompt" or "request"
	what string
	nth  int // number among the steps of that kind and what, from 1
	pin  hsm.PINKind
}

func (s step) String() string {
	if s.nth > 1 {
		return fmt.Sprintf("%s (%d)", s.what, s.nth)
	}
	return s.what
}

// failure is a way in which a step fails.
type failure struct {
	name string
	kind string // kind of the steps that can fail so
	// strike makes the step fail.
	strike func(w *World, stop func()) (Fate, error)
	// answers take the place of the answer to a question.
	answers func(stop func()) []hsmtest.Answer
	is      func(error) bool
	spends  bool // a try of the PIN is spent
	hints   bool // the error has a hint
}

func oneOf(want ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) })
	}
}

// unreachable tells whether err is what clients, or the bridge, say of an API server that
// does not answer.
func unreachable(err error) bool {
	return oneOf(apierror.ErrUnreachable, upstream.ErrUnreachable)(err) ||
		strings.Contains(err.Error(), "kubehsm: cannot reach the API server")
}

// failures are the ways in which something fails.
var failures = []failure{
	{name: "removed", kind: "token", is: oneOf(hsm.ErrRemoved, hsm.ErrNoToken),
		strike: func(w *World, _ func()) (Fate, error) { w.Card.Unplug(); return 0, nil }},
	{name: "ctrl-c", kind: "token", is: oneOf(context.Canceled),
		strike: func(_ *World, stop func()) (Fate, error) { stop(); return 0, context.Canceled }},
	{name: "cancelled", kind: "prompt", is: oneOf(hsm.ErrCancelled),
		answers: func(func()) []hsmtest.Answer { return []hsmtest.Answer{hsmtest.Cancel()} }},
	{name: "nobody to ask", kind: "prompt", is: oneOf(hsm.ErrNoTerminal),
		answers: func(func()) []hsmtest.Answer { return []hsmtest.Answer{hsmtest.Fail(hsm.ErrNoTerminal)} }},
	{name: "ctrl-c", kind: "prompt", is: oneOf(context.Canceled),
		answers: func(stop func()) []hsmtest.Answer { return []hsmtest.Answer{hsmtest.Hang(nil).Doing(stop)} }},
	{name: "wrong", kind: "prompt", is: oneOf(hsm.ErrCancelled), spends: true,
		answers: func(func()) []hsmtest.Answer {
			return []hsmtest.Answer{hsmtest.PIN("99999999"), hsmtest.Cancel()}
		}},
	{name: "forbidden", kind: "request", is: func(err error) bool {
		return apierrors.IsForbidden(err) || errors.Is(err, bootstraptoken.ErrForbidden)
	}, strike: func(*World, func()) (Fate, error) { return 403, nil }},
	{name: "500", kind: "request", is: func(err error) bool { return err != nil },
		strike: func(*World, func()) (Fate, error) { return 500, nil }},
	{name: "gone", kind: "request", hints: true, is: unreachable,
		strike: func(w *World, _ func()) (Fate, error) { w.Server.Gone(); return Dropped, nil }},
	{name: "cut", kind: "request", is: unreachable,
		strike: func(*World, func()) (Fate, error) { return Cut, nil }},
	{name: "ctrl-c", kind: "request", is: oneOf(context.Canceled),
		strike: func(_ *World, stop func()) (Fate, error) { stop(); return Held, nil }},
}

// Try runs all tries.
func (c UseCase) Try(t *testing.T) {
	t.Run(c.Name, func(t *testing.T) {
		var steps []step
		var done []string
		if !t.Run("done", func(t *testing.T) { steps, done = c.succeed(t) }) {
			return
		}
		for i, s := range steps {
			var all []failure
			for _, f := range failures {
				if f.kind == s.kind && (!f.spends || s.pin != "") && !begins(f.name+": "+s.String(), c.Skips) {
					all = append(all, f)
				}
			}
			// What is done once more fails in one way, in turns; and right after the same, not again.
			if s.nth > 1 && len(all) > 0 && s.kind != "prompt" {
				all = all[s.nth%len(all):][:1]
				if before := steps[i-1]; before.kind == s.kind && before.what == s.what {
					all = nil
				}
			}
			for _, f := range all {
				t.Run(f.name+": "+s.String(), func(t *testing.T) { c.fail(t, steps, s, f, done) })
			}
			if s.String() == c.Until {
				break
			}
		}
		if i := slices.IndexFunc(steps, func(s step) bool { return s.pin == hsm.UserPIN || s.pin == hsm.PIVPIN }); i >= 0 {
			t.Run("blocked", c.blocked)
		}
	})
}

// watch calls each at every step of w; asked is to be called as something is asked.
func watch(w *World, each func(step) (Fate, error)) (asked func()) {
	var mu sync.Mutex
	seen := map[string]int{}
	count := func(kind, what string) step {
		mu.Lock()
		defer mu.Unlock()
		seen[kind+what]++
		return step{kind: kind, what: what, nth: seen[kind+what]}
	}
	w.Card.Before(func(_ context.Context, op hsmtest.Op) error {
		_, err := each(count("token", string(op)))
		return err
	})
	if w.Server != nil {
		w.Server.Before(func(right string) Fate {
			fate, _ := each(count("request", right))
			return fate
		})
	}
	return func() { _, _ = each(count("prompt", "question")) } // the script answers
}

// rest takes w's hooks off.
func (w *World) rest() {
	w.Card.Before(nil)
	if w.Server != nil {
		w.Server.Before(nil)
	}
	w.Card.Plug()
}

func (c UseCase) succeed(t *testing.T) (steps []step, done []string) {
	w := c.World(t)
	var mu sync.Mutex
	asks := watch(w, func(s step) (Fate, error) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, s)
		return 0, nil
	})
	answers := slices.Clone(c.Answers)
	for i := range answers {
		answers[i] = answers[i].Doing(asks)
	}
	script := hsmtest.NewScript(t, answers...)
	must.OK(t, c.Do(t.Context(), w, script))
	w.rest()
	if c.Done != nil {
		c.Done(t, w)
	}
	asked := script.Prompts()
	asked = slices.DeleteFunc(asked, func(p hsmtest.Prompt) bool { return p.Touch != nil })
	for i := range steps {
		if steps[i].kind == "prompt" {
			if p := asked[0].PIN; p != nil && !p.New {
				steps[i].pin = p.Kind
			}
			asked = asked[1:]
		}
	}
	return steps, shape(w.State())
}

// begins tells whether one of the prefixes is name's, or "=" and name is among them.
func begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) || p == "="+name })
}

func (c UseCase) fail(t *testing.T, steps []step, at step, f failure, done []string) {
	name := f.name + ": " + at.String()
	w := c.World(t)
	was := w.State()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	answers := c.Answers
	if f.answers != nil {
		nth := 0
		for _, s := range steps {
			if s.kind == "prompt" {
				if nth++; s == at {
					break
				}
			}
		}
		answers = slices.Concat(c.Answers[:nth-1], f.answers(stop))
	}
	var struck atomic.Bool
	var last step // the request after whose answer the server goes
	if f.name == "gone" && reads(at.what) {
		// To go as the request arrives has client-go wait for a second, and then find nobody.
		if last = before(steps, at); last.kind == "" {
			struck.Store(true)
			w.Server.Gone()
		}
	}
	watch(w, func(s step) (Fate, error) {
		if s.kind == "request" && s.what == last.what && s.nth == last.nth {
			struck.Store(true)
			w.Server.Gone()
			return Last, nil
		}
		if f.strike != nil && s.kind == at.kind && s.what == at.what && s.nth == at.nth {
			struck.Store(true)
			return f.strike(w, stop)
		}
		return 0, nil
	})
	err := c.Do(ctx, w, hsmtest.NewScript(t, answers...).Lax())
	w.rest()
	if f.strike != nil && !struck.Load() && err == nil {
		return // the agent does not look at a token equally often each time
	}
	c.judge(t, name, f, err)
	after := w.State()
	if f.spends {
		spend(was, at.pin)
	}
	if !maps.Equal(was, after) && !slices.Equal(shape(after), done) && !begins(name, c.Leaves) {
		t.Errorf("%v\nleft:\n%s", err, differences(was, after))
	}
	if c.Resumes && f.name != "gone" {
		if err := c.Do(t.Context(), w, hsmtest.NewScript(t, c.Answers...).Lax()); err != nil {
			t.Errorf("once more: %v", err)
		} else if again := shape(w.State()); !slices.Equal(again, done) {
			t.Errorf("once more: %q, want %q", again, done)
		}
	}
}

// reads reports whether a request changes nothing and is sent again by client-go.
func reads(what string) bool {
	return strings.HasPrefix(what, "get ") || strings.HasPrefix(what, "list ")
}

// before is the request before another, if there is one.
func before(steps []step, at step) (last step) {
	for _, s := range steps {
		if s == at {
			break
		}
		if s.kind == "request" {
			last = s
		}
	}
	return last
}

// judge fails the test if err is not the error for that failure.
func (c UseCase) judge(t *testing.T, name string, f failure, err error) {
	t.Helper()
	is := f.is
	longest := ""
	for prefix, want := range c.Says {
		if strings.HasPrefix(name, prefix) && len(prefix) > len(longest) {
			longest, is = prefix, oneOf(want)
		}
	}
	switch passes := begins(name, c.Passes); {
	case passes && err != nil:
		t.Errorf("failed, although the use case passes this failure: %v", err)
	case !passes && (err == nil || !is(err)):
		t.Errorf("got %v", err)
	case !passes && f.hints && hint.Of(err) == "" &&
		!strings.Contains(err.Error(), "cannot reach the API server 127.0.0.1:"): // the bridge's words
		t.Errorf("no hint with %v", err)
	}
}

// blocked runs the use case with a blocked PIN: nobody is asked for that.
func (c UseCase) blocked(t *testing.T) {
	w := c.World(t)
	w.Card.Block()
	before := w.State()
	err := c.Do(t.Context(), w, hsmtest.NewScript(t, c.Answers...).Lax())
	if !errors.Is(err, hsm.ErrPINLocked) {
		t.Errorf("got %v", err)
	}
	if after := w.State(); !maps.Equal(before, after) && !begins("blocked", c.Leaves) {
		t.Errorf("left:\n%s", differences(before, after))
	}
}

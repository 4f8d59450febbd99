//go:build linux && cgo

package worker

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/test/badlib"
	"github.com/kubehsm/kubehsm/test/poll"
)

// testDrivers are those of a worker.
func testDrivers(h *Host) hsm.Drivers {
	soft := pkcs11.New(pkcs11.Options{LockDir: os.Getenv(lockVar), Finishing: h.Finishing})
	if lie := os.Getenv(lieVar); lie != "" {
		return hsm.Drivers{liar{soft, lie}}
	}
	return hsm.Drivers{soft, piv.New(piv.Options{Finishing: h.Finishing})}
}

// lieVar has a worker's driver speak of a token with that label, see [liar].
const lieVar = "KUBEHSM_TEST_LIE"

// liar is a driver that wants the PIN of another token: it says so when it asks or, with the
// label "opened", when it opens.
type liar struct {
	*pkcs11.Driver
	label string
}

func (l liar) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	tok, err := l.Driver.Open(ctx, u)
	return lyingToken{tok, l.label}, err
}

type lyingToken struct {
	hsm.Token
	label string
}

func (l lyingToken) Info(ctx context.Context) (hsm.TokenInfo, error) {
	info, err := l.Token.Info(ctx)
	if l.label == "opened" {
		info.Label = l.label
	}
	return info, err
}

func (l lyingToken) Unlock(ctx context.Context, p hsm.Prompter) error {
	other := hsm.TokenInfo{Scheme: hsm.SchemePIV, Label: l.label, Serial: "12345678", PIN: hsm.PINState{Retries: 2}}
	purpose := hsm.Purpose{Cluster: "prod", Action: "sign in", Command: "kubectl get pods"}
	p.Touch(ctx, hsm.TouchPrompt{Token: other, Purpose: purpose})()
	asked, err := p.PIN(ctx, hsm.PINPrompt{Kind: hsm.UserPIN, Token: other, Purpose: purpose, Retries: 2})
	asked.Zero()
	return err
}

// TestPromptNamesTheOpenToken: what a worker says of its token and of the purpose reaches no
// prompt, and a worker that opens another token than the one that was wanted is refused.
func TestPromptNamesTheOpenToken(t *testing.T) {
	b := newBadLibraries(t)
	t.Setenv(lieVar, "other")
	d := b.driver(t, 0, true)
	u := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "good"}
	tok, err := d.Open(t.Context(), u)
	check(t, err)
	person := hsmtest.NewScript(t, hsmtest.PIN(pin))
	check(t, tok.Unlock(t.Context(), person))
	check(t, tok.Close())
	pins, touch := person.PINs(), person.Prompts()[0].Touch
	if len(pins) != 1 || !u.MatchToken(pins[0].Token) || pins[0].Token.Serial == "12345678" || pins[0].Retries != 2 ||
		!reflect.DeepEqual(pins[0].Purpose, hsm.Purpose{}) {
		t.Errorf("asked for the PIN: %+v", pins)
	}
	if touch == nil || !u.MatchToken(touch.Token) || !reflect.DeepEqual(touch.Purpose, hsm.Purpose{}) {
		t.Errorf("shown: %+v", touch)
	}
	t.Setenv(lieVar, "opened")
	if tok, err := b.driver(t, 0, true).Open(t.Context(), u); !errors.Is(err, hsm.ErrModule) ||
		!strings.Contains(err.Error(), "instead of") {
		t.Errorf("another token: %v, %v", tok, err)
	}
}

// lockVar is the folder of a worker's locks.
const lockVar = "KUBEHSM_TEST_LOCKS"

// badLibraries are libraries that behave in a way of their own each, in front of a
// SoftHSM with one token called "good".
type badLibraries struct {
	soft *hsmtest.SoftHSM
	path map[string]string // the keys are ways to behave
}

func newBadLibraries(t *testing.T, ways ...string) badLibraries {
	t.Helper()
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: "good", PIN: pin})
	b := badLibraries{soft: soft, path: badlib.Make(t, ways...)}
	t.Setenv(badlib.Real, b.soft.Module)
	return b
}

// driver is one for the libraries of those ways, in this order, and SoftHSM last if
// healthy is true. Those that are silent for longer than limit are named; 0 is an hour.
func (b badLibraries) driver(t *testing.T, limit time.Duration, healthy bool, ways ...string) *apart {
	t.Helper()
	return b.driverWith(t, Options{}, limit, healthy, ways...)
}

func (b badLibraries) driverWith(t *testing.T, o Options, limit time.Duration, healthy bool, ways ...string) *apart {
	t.Helper()
	t.Setenv(lockVar, t.TempDir())
	var modules []pkcs11.Module
	for _, way := range ways {
		modules = append(modules, pkcs11.Module{Path: b.path[way]})
	}
	if healthy {
		modules = append(modules, pkcs11.Module{Path: b.soft.Module})
	}
	inner := pkcs11.New(pkcs11.Options{Modules: modules, LockDir: t.TempDir()})
	o.Exe, o.Patient = os.Args[0], true
	l := newApart(inner, newWorkers(o))
	if l.limit = limit; limit == 0 {
		l.limit = time.Hour
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// good tells whether the SoftHSM's own token is among views.
func (b badLibraries) good(views []hsm.View) bool {
	return slices.ContainsFunc(views, func(v hsm.View) bool {
		return v.Info.Label == "good" && v.Info.Module.Path == b.soft.Module && v.Err == nil
	})
}

// all leaves no token out.
func all(hsm.TokenInfo) bool { return false }

// TestBadLibraries: each library that crashes, ends its process, or hangs is named
// with how it ended, and hides no token of the others.
func TestBadLibraries(t *testing.T) {
	want := map[string]string{
		"crash": "SIGSEGV", "exit": "exit status 0", "abort-token": "SIGABRT",
		"hang": "did not answer", "hang-list": "did not answer",
	}
	b := newBadLibraries(t, "crash", "exit", "abort-token", "hang", "hang-list", "request", "loud")
	t.Setenv("EXTERNAL_SIGNER_PLUGIN_CONFIG", `{"pin":"123456"}`)
	told := func(problems []hsm.Problem, ways ...string) {
		t.Helper()
		if len(problems) != len(ways) {
			t.Errorf("problems %v", problems)
		}
		for _, way := range ways {
			i := slices.IndexFunc(problems, func(p hsm.Problem) bool { return p.Source == b.path[way] })
			if i < 0 {
				t.Errorf("%s: nothing is said", way)
				continue
			}
			err := problems[i].Err
			if !errors.Is(err, hsm.ErrModule) || !strings.Contains(err.Error(), b.path[way]) ||
				!strings.Contains(err.Error(), want[way]) || !strings.Contains(hinting.Of(err), "remove it from config.yaml") {
				t.Errorf("%s: %v, hint %q", way, err, hinting.Of(err))
			}
		}
	}
	d := b.driver(t, 0, true, "crash", "exit", "abort-token", "request", "loud")
	views, problems, err := d.Views(t.Context(), 0, all)
	check(t, err)
	told(problems, "crash", "exit", "abort-token")
	if !b.good(views) {
		t.Errorf("views %+v", views)
	}
	through := func(way string) bool {
		return slices.ContainsFunc(views, func(v hsm.View) bool {
			return v.Info.Label == "good" && v.Info.Module.Path == b.path[way]
		})
	}
	if !through("request") || !through("loud") {
		t.Errorf("views %+v", views)
	}
	list, err := d.List(t.Context())
	check(t, err)
	told(list.Problems, "crash", "exit", "abort-token")

	// Those that hang are named at the limit.
	d = b.driver(t, 200*time.Millisecond, false, "hang", "hang-list")
	_, problems, err = d.Views(t.Context(), 0, all)
	check(t, err)
	told(problems, "hang", "hang-list")

	// One that goes on for far too long is ended, and left alone for a while.
	d = b.driverWith(t, Options{Longest: 300 * time.Millisecond}, 0, false, "hang", "hang-list")
	for range 2 {
		_, problems, err = d.Views(t.Context(), 0, all)
		check(t, err)
		told(problems, "hang", "hang-list")
		if len(d.workers.Workers()) != 0 {
			t.Error("what hangs was not ended")
		}
	}
}

// TestPendingLibrary: who does not wait for a library that hangs sees the others,
// and which one is awaited; it is asked once.
func TestPendingLibrary(t *testing.T) {
	b := newBadLibraries(t, "hang")
	d := b.driver(t, 0, true, "hang")
	poll.Until(t, "the healthy token is shown", func() bool {
		views, problems, err := d.Views(t.Context(), time.Millisecond, all)
		check(t, err)
		i := slices.IndexFunc(problems, func(p hsm.Problem) bool { return p.Source == b.path["hang"] })
		if i < 0 || !errors.Is(problems[i].Err, hsm.ErrPending) {
			t.Fatalf("problems %v", problems)
		}
		return b.good(views)
	})
	if n := len(d.workers.Workers()); n != 2 {
		t.Errorf("%d processes for two libraries", n)
	}
}

// TestLibraryThatFallsSilent: a library that answered once and hangs then is named after its
// limit, beside what it had; once it answers it is not named any more.
func TestLibraryThatFallsSilent(t *testing.T) {
	b := newBadLibraries(t, "fine")
	d := b.driver(t, 50*time.Millisecond, false, "fine")
	views := func() ([]hsm.View, []hsm.Problem) {
		views, problems, err := d.Views(t.Context(), time.Millisecond, all)
		check(t, err)
		return views, slices.DeleteFunc(problems, func(p hsm.Problem) bool { return !errors.Is(p.Err, hsm.ErrModule) })
	}
	var had int
	poll.Until(t, "its token is shown", func() bool {
		found, problems := views()
		had = len(found)
		return had > 0 && len(problems) == 0
	})
	badlib.Do(t, b.path["fine"], "hang-list")
	poll.Until(t, "it is named", func() bool {
		found, problems := views()
		if len(found) != had {
			t.Fatalf("%d tokens, there were %d", len(found), had)
		}
		return len(problems) == 1 && strings.Contains(problems[0].Err.Error(), "did not answer")
	})
	badlib.Do(t, b.path["fine"])
	poll.Until(t, "it is well again", func() bool {
		found, problems := views()
		return len(found) == had && len(problems) == 0
	})
}

// TestOpenLoadsNoLibraryHere: whatever else there is, a token is opened, and no library is
// loaded in this process.
func TestOpenLoadsNoLibraryHere(t *testing.T) {
	b := newBadLibraries(t, "crash", "exit", "hang")
	d := b.driver(t, 0, true, "crash", "exit", "hang")
	for _, path := range []string{"", b.soft.Module} {
		u := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "good", ModulePath: path}
		tok, err := d.Open(t.Context(), u)
		if err != nil {
			t.Fatalf("%s: %v", u, err)
		}
		check(t, tok.Close())
	}
	maps, err := os.ReadFile("/proc/self/maps")
	check(t, err)
	for _, path := range []string{b.path["crash"], b.path["exit"], b.path["hang"], b.soft.Module} {
		if strings.Contains(string(maps), path) {
			t.Errorf("%s was loaded here", path)
		}
	}
	// A token of a library that crashed is refused, with its name.
	_, err = d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "good", ModulePath: b.path["crash"]})
	if !errors.Is(err, hsm.ErrNoToken) || !errors.Is(err, hsm.ErrModule) ||
		!strings.Contains(err.Error(), b.path["crash"]) {
		t.Errorf("error %v", err)
	}
}

// TestViewsFollowThisProcess: what this process makes and deletes on a token, and a token that
// it sets up, is seen by the next look.
func TestViewsFollowThisProcess(t *testing.T) {
	b := newBadLibraries(t)
	d := b.driver(t, 0, true)
	count := func() (tokens, keys int) {
		t.Helper()
		views, problems, err := d.Views(t.Context(), 0, all)
		check(t, err)
		if len(problems) != 0 {
			t.Errorf("problems %v", problems)
		}
		for _, v := range views {
			check(t, v.Err)
			if v.Info.Initialized {
				tokens++
			}
			keys += len(v.Slots)
		}
		return tokens, keys
	}
	if tokens, keys := count(); tokens != 1 || keys != 0 {
		t.Fatalf("%d tokens, %d keys", tokens, keys)
	}
	tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "good"})
	check(t, err)
	slot, err := tok.Generate(t.Context(), hsm.GenerateOptions{Label: "made here"}, hsmtest.Typing(t, pin))
	check(t, err)
	signer, err := tok.Signer(t.Context(), slot.URI, slot.Key.Public, nil)
	check(t, err)
	cert, err := hsmtest.Certify(signer, "made here")
	check(t, err)
	check(t, tok.StoreCertificate(t.Context(), slot.URI, cert, nil))
	views, _, err := d.Views(t.Context(), 0, all)
	check(t, err)
	i := slices.IndexFunc(views, func(v hsm.View) bool { return v.Info.Label == "good" })
	if i < 0 || len(views[i].Slots) != 1 || !hsm.SameKey(views[i].Slots[0].Key.Public, slot.Key.Public) ||
		views[i].Slots[0].URI.String() != slot.URI.String() || !cert.Equal(views[i].Slots[0].Certificate) {
		t.Errorf("views %+v", views)
	}
	// Set up in this process, as `token init` does.
	_, err = d.Initialize(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11}, hsm.InitializeOptions{Label: "second"},
		hsmtest.TypingAll(t, map[hsm.PINKind]string{hsm.UserPIN: pin, hsm.SOPIN: "12345678"}))
	check(t, err)
	check(t, tok.Delete(t.Context(), slot.URI, nil))
	check(t, tok.Close())
	if tokens, keys := count(); tokens != 2 || keys != 0 {
		t.Errorf("%d tokens, %d keys", tokens, keys)
	}
}

// TestManySlots: what is on a token comes in parts, however much it is.
func TestManySlots(t *testing.T) {
	var l slotReader
	long := strings.Repeat("x", 1000)
	for range 3000 {
		l.slots = append(l.slots, &slotReply{Slot: hsm.Slot{Label: long}})
	}
	parts, n := 0, 0
	for n < len(l.slots) {
		if n == 0 {
			n = 1 // the first part is what reads the token
		}
		out, err := l.slotsFrom(t.Context(), asked{arguments: arguments{From: n}})
		check(t, err)
		if len(out.Slots) == 0 || out.Total != len(l.slots) {
			t.Fatalf("%d of %d", len(out.Slots), out.Total)
		}
		n += len(out.Slots)
		parts++
	}
	if parts < 10 {
		t.Errorf("%d parts", parts)
	}
	if _, err := l.slotsFrom(t.Context(), asked{arguments: arguments{From: n + 1}}); err == nil {
		t.Error("slots beyond the last one")
	}
}

// named opens the token through the library of that way.
func (b badLibraries) named(way string) hsm.URI {
	return hsm.URI{Scheme: hsm.SchemePKCS11, Token: "good", ModulePath: b.path[way]}
}

// TestCrashInUse: a library that crashes with a token open is named, with the signal, and
// left alone for a while: the PIN is asked for once. What may have cost a try is said, once.
func TestCrashInUse(t *testing.T) {
	for point, hint := range map[string]string{
		"crash-login":   "see the tries left with `kubehsm token info --token 'pkcs11:token=good",
		"abort-session": "update or repair the library",
	} {
		b := newBadLibraries(t, "fine")
		d := b.driver(t, 0, false, "fine")
		tok, err := d.Open(t.Context(), b.named("fine"))
		check(t, err)
		badlib.Do(t, b.path["fine"], point)
		asked := 0
		person := ask.Func(func(context.Context, ask.Question) (ask.Answer, error) {
			asked++
			return ask.Answer{PIN: hsm.NewSecret([]byte(pin))}, nil
		})
		for i := range 2 {
			_, err = tok.Generate(t.Context(), hsm.GenerateOptions{Label: "k"}, person)
			if !errors.Is(err, hsm.ErrModule) || !strings.Contains(err.Error(), b.path["fine"]) ||
				!strings.Contains(err.Error(), "SIG") {
				t.Errorf("%s: %v", point, err)
			}
			if i > 0 {
				hint = "update or repair the library"
			}
			if said := hinting.Of(err); !strings.HasPrefix(said, hint) {
				t.Errorf("%s: hint %q, want %q", point, said, hint)
			}
			if tok, err := d.Open(t.Context(), b.named("fine")); !errors.Is(err, hsm.ErrModule) {
				t.Errorf("%s: opened again: %v, %v", point, tok, err)
			}
		}
		check(t, tok.Close())
		if asked > 1 {
			t.Errorf("%s: the PIN was asked for %d times", point, asked)
		}
	}
}

// TestSlowLibrary: a library that a command waits for is shown for as long as it takes.
func TestSlowLibrary(t *testing.T) {
	b := newBadLibraries(t, "fine")
	d := b.driver(t, 0, false, "fine")
	tok, err := d.Open(t.Context(), b.named("fine"))
	check(t, err)
	badlib.Do(t, b.path["fine"], "hang-login")
	shown, down := make(chan string, 1), make(chan struct{})
	ctx := WithWaiting(t.Context(), func(library string) (done func()) {
		shown <- library
		return func() { close(down) }
	})
	unlocked := make(chan error, 1)
	go func() { unlocked <- tok.Unlock(ctx, hsmtest.Typing(t, pin)) }()
	if name := <-shown; name != "library "+b.path["fine"] {
		t.Errorf("shown: %q", name)
	}
	badlib.Do(t, b.path["fine"])
	check(t, <-unlocked)
	<-down
	check(t, tok.Close())
}

// TestCancelHangingLibrary: what hangs is left at once, and its process with the driver.
func TestCancelHangingLibrary(t *testing.T) {
	b := newBadLibraries(t, "fine")
	d := b.driver(t, 0, false, "fine")
	tok, err := d.Open(t.Context(), b.named("fine"))
	check(t, err)
	badlib.Do(t, b.path["fine"], "hang-login")
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	unlocked := make(chan error, 1)
	go func() {
		unlocked <- tok.Unlock(ctx, ask.Func(func(context.Context, ask.Question) (ask.Answer, error) {
			close(asked)
			return ask.Answer{PIN: hsm.NewSecret([]byte(pin))}, nil
		}))
	}()
	<-asked
	cancel()
	if err := <-unlocked; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	check(t, tok.Close())
	badlib.Do(t, b.path["fine"])
	again, err := d.Open(t.Context(), b.named("fine")) // a new process opens it
	check(t, err)
	check(t, again.Unlock(t.Context(), hsmtest.Typing(t, pin)))
	check(t, again.Close())
	badlib.Do(t, b.path["fine"], "hang-find")
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	_, _ = again.Slots(ctx, nil) // whatever it says
	check(t, d.Close())
	if left := d.workers.Workers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestOwnErrors: what the program's own prompter fails with comes back as it was.
func TestOwnErrors(t *testing.T) {
	b := newBadLibraries(t)
	d := b.driver(t, 0, true)
	tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "good"})
	check(t, err)
	own := &hsm.PINError{Kind: hsm.PUK, Retries: 7}
	err = tok.Unlock(t.Context(), ask.Func(func(context.Context, ask.Question) (ask.Answer, error) {
		return ask.Answer{}, own
	}))
	if got, ok := errors.AsType[*hsm.PINError](err); !ok || got != own {
		t.Errorf("%#v", err)
	}
	check(t, tok.Close())
}

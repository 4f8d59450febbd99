//go:build linux && cgo

package worker

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/badlib"
	"github.com/kubehsm/kubehsm/test/poll"
)

// testDrivers are those of a worker.
func testDrivers() hsm.Drivers { return hsm.Drivers{pkcs11.New(pkcs11.Options{})} }

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
// healthy is true. Those that are silent for longer than limit are ended; 0 is an hour.
func (b badLibraries) driver(t *testing.T, limit time.Duration, healthy bool, ways ...string) *libraries {
	t.Helper()
	var modules []pkcs11.Module
	for _, way := range ways {
		modules = append(modules, pkcs11.Module{Path: b.path[way]})
	}
	if healthy {
		modules = append(modules, pkcs11.Module{Path: b.soft.Module})
	}
	inner := pkcs11.New(pkcs11.Options{Modules: modules, LockDir: t.TempDir()})
	l := newLibraries(inner, newWorkers(Options{Exe: os.Args[0]}))
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
				!strings.Contains(err.Error(), want[way]) || !strings.Contains(hinting.Of(err), "take it out of config.yaml") {
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

	// Those that hang are ended at the limit.
	d = b.driver(t, 200*time.Millisecond, false, "hang", "hang-list")
	_, problems, err = d.Views(t.Context(), 0, all)
	check(t, err)
	told(problems, "hang", "hang-list")
	if len(d.workers.Workers()) != 0 {
		t.Error("what hangs was not ended")
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

// TestOpenLoadsOneLibrary: whatever else there is, a token is opened, with its own
// library alone loaded in this process.
func TestOpenLoadsOneLibrary(t *testing.T) {
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
	for _, way := range []string{"crash", "exit", "hang"} {
		if strings.Contains(string(maps), b.path[way]) {
			t.Errorf("%s was loaded here", way)
		}
	}
	// A token of a library that crashed is refused, with its name.
	_, err = d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "good", ModulePath: b.path["crash"]})
	if !errors.Is(err, hsm.ErrNoToken) || !errors.Is(err, hsm.ErrModule) ||
		!strings.Contains(err.Error(), b.path["crash"]) {
		t.Errorf("error %v", err)
	}
}

// TestViewsFollowThisProcess: what this process makes on a token, and a token that
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
	check(t, tok.Close())
	views, _, err := d.Views(t.Context(), 0, all)
	check(t, err)
	i := slices.IndexFunc(views, func(v hsm.View) bool { return v.Info.Label == "good" })
	if i < 0 || len(views[i].Slots) != 1 ||
		!hsm.SameKey(views[i].Slots[0].Key.Public, slot.Key.Public) || views[i].Slots[0].URI.String() != slot.URI.String() {
		t.Errorf("views %+v", views)
	}
	// Set up in this process, as `token init` does.
	_, err = d.Initialize(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11}, hsm.InitializeOptions{Label: "second"},
		hsmtest.TypingAll(t, map[hsm.PINKind]string{hsm.UserPIN: pin, hsm.SOPIN: "12345678"}))
	check(t, err)
	if tokens, keys := count(); tokens != 2 || keys != 1 {
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
		out, err := l.slotsFrom(t.Context(), nil, slotsRequest{From: n})
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
	if _, err := l.slotsFrom(t.Context(), nil, slotsRequest{From: n + 1}); err == nil {
		t.Error("slots beyond the last one")
	}
}

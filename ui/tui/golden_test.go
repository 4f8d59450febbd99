package tui

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// TestMain has times shown as everywhere else.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// scene is a moment worth looking at.
type scene struct {
	name  string
	fake  func(*fakeBackend)
	start rigOption
	walk  func(*rig)
}

func scenes(t *testing.T) []scene {
	none := func(*rig, *Options) {}
	walk := func(steps ...func(*rig)) func(*rig) {
		return func(r *rig) {
			for _, s := range steps {
				s(r)
			}
		}
	}
	return []scene{
		{name: "tokens", fake: func(f *fakeBackend) {
			f.problems = []hsm.Problem{{Source: "/usr/lib/opensc-pkcs11.so", Err: errors.New("C_Initialize: CKR_GENERAL_ERROR")}}
		}, start: none, walk: func(r *rig) { r.Sees("trial"); r.Press("down", "down"); r.Sees("9a") }},
		{name: "token", start: none, walk: func(r *rig) { atToken(r); r.Sees("9e") }},
		{name: "palette", start: none, walk: func(r *rig) { atToken(r); r.Press("ctrl+p", `"key"`); r.Sees("delete key") }},
		{name: "reset", start: none, walk: func(r *rig) { atToken(r); r.Press("X"); r.Sees("Type 12345678") }},
		{name: "attestation", start: none, walk: func(r *rig) { atToken(r); r.Press("t"); r.Sees("Yubico PIV Root CA") }},
		{name: "requests", start: none, walk: atRequests},
		{name: "look", start: none, walk: toLook},
		{name: "look-bad", start: none, walk: func(r *rig) { atRequests(r); r.Press("enter"); r.Sees("Nobody vouches") }},
		{name: "contexts", fake: withOurs, start: none, walk: func(r *rig) { atContexts(r); r.Press("enter"); r.Sees("takes you for jane") }},
		{name: "remove", fake: withOurs, start: none, walk: func(r *rig) { atContexts(r); r.Press("end"); r.opens("X"); r.Sees("Remove prod-hsm?") }},
		{name: "desk", start: none, walk: atDesk},
		{name: "revoke", start: none, walk: func(r *rig) {
			atDesk(r)
			r.opens("w")
			r.Press(`"jane"`, "enter")
			r.Sees("Remove, deny and end these?")
		}},
		{name: "roles", start: none, walk: func(r *rig) {
			atDesk(r)
			r.opens("o")
			r.Press("enter")
			r.Sees("you may make tickets")
		}},
		{name: "forbidden", fake: func(f *fakeBackend) {
			f.requestsErr = &csr.ForbiddenError{Op: "list requests", User: "jane", Missing: []csr.Rule{{Verb: "list"}}, Rules: []csr.Rule{{Verb: "list"}}, Err: errors.New("forbidden")}
		}, start: none, walk: func(r *rig) {
			atTokens(r)
			r.goTo("Requests")
			r.Sees("You may not list", "not filed")
		}},
		{name: "consent", fake: withOurs, start: none, walk: func(r *rig) {
			atContexts(r)
			r.Press("end")
			r.opens("y")
			r.Sees("No kubeconfig can weaken it")
		}},
		{name: "uninitialised", fake: func(f *fakeBackend) { f.tokens[0].Info.Initialized = false }, start: none,
			walk: func(r *rig) {
				atTokens(r)
				r.Press("g", "enter")
				r.Sees("It is not set up yet: I sets it up", "I set up")
			}},
		{name: "no-token", fake: func(f *fakeBackend) { f.tokens = nil }, start: none, walk: func(r *rig) { r.Sees("No token is here") }},
		{name: "resume", fake: func(f *fakeBackend) { f.unfinished = []enrolling.Progress{journal(f)} }, start: atEnroll,
			walk: func(r *rig) { r.Sees("Resume staging-hsm") }},
		{name: "key", start: atEnroll, walk: walk(toToken, func(r *rig) { r.Press("down", "enter"); r.Sees("reuse its") })},
		{name: "policy", start: atEnroll, walk: walk(toPolicy)},
		{name: "building", start: building(t, `{"phase":"building","done":412,"total":1180,"message":"k8s.io/kubernetes/pkg/apis/core","started":"2026-11-21T09:26:00Z"}`),
			walk: walk(toPolicy, func(r *rig) { r.Press("enter"); r.Sees("412 of 1180") })},
		{name: "cluster", start: atEnroll, walk: walk(toCluster)},
		{name: "subject", start: atEnroll, walk: walk(toSubject, func(r *rig) { r.Press(`"jane"`) })},
		{name: "review", start: atEnroll, walk: walk(toReview)},
		{name: "pin", fake: func(f *fakeBackend) { f.tries = 2 }, start: atEnroll,
			walk: walk(toPIN, func(r *rig) {
				r.Press(`"111111"`, "enter")
				r.Sees("Use the last try")
				r.Press("y")
				r.Sees("The last try")
				r.Press(`"1234"`)
			})},
		{name: "running", fake: func(f *fakeBackend) { f.hang[enrolling.StepApproval] = true }, start: atEnroll,
			walk: walk(toPIN, func(r *rig) {
				r.Press(`"648219"`, "enter")
				r.Sees("waiting for somebody")
				r.Time = r.Time.Add(75 * time.Second)
				r.Send(tickMsg{})
			})},
		{name: "failed", fake: func(f *fakeBackend) { f.fail[enrolling.StepRequest] = errRefused() }, start: atEnroll,
			walk: walk(toPIN, func(r *rig) { r.Press(`"648219"`, "enter"); r.Sees("hint: start the cluster") })},
		{name: "result", start: atEnroll, walk: walk(toPIN, func(r *rig) { r.Press(`"648219"`, "enter"); r.Sees("authenticated as jane") })},
		{name: "no-rights", fake: func(f *fakeBackend) { f.noRights = true }, start: atEnroll,
			walk: walk(toPIN, func(r *rig) { r.Press(`"648219"`, "enter"); r.Sees("no rights yet") })},
		{name: "help", start: none, walk: func(r *rig) { r.Sees("trial"); r.Press("?"); r.Sees("Everywhere") }},
	}
}

func errRefused() error {
	return hint.With(errors.New("file the request: dial tcp 127.0.0.1:6443: connect: connection refused"), "start the cluster, then try again")
}

func journal(f *fakeBackend) enrolling.Progress {
	return enrolling.Progress{Options: enrolling.Options{Name: "staging-hsm", Context: "staging", User: "jane", Token: f.tokens[0].Info.URI()},
		Done: []enrolling.Step{enrolling.StepToken, enrolling.StepKey, enrolling.StepRequest}, Updated: fakeNow().Add(-150 * time.Minute)}
}

// building starts at the wizard while a cluster is being built.
func building(t *testing.T, progress string) rigOption {
	path := filepath.Join(t.TempDir(), "progress.json")
	if err := os.WriteFile(path, []byte(progress), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(_ *rig, o *Options) { o.Start, o.ClusterProgress = ScreenEnroll, path }
}

func toToken(r *rig) { r.Sees("Which token", "trial") }
func toPolicy(r *rig) {
	toToken(r)
	r.Press("enter")
	r.Sees("A new key")
	r.Press("enter")
	r.Sees("Algorithm")
}
func toCluster(r *rig) { toPolicy(r); r.Press("enter"); r.Sees("Which cluster", "trial-admin") }
func toSubject(r *rig) { toCluster(r); r.Press("enter"); r.Sees("Who is it for", "trial-admin-hsm") }
func toReview(r *rig) {
	toSubject(r)
	r.Press(`"jane"`, "enter")
	r.Sees("This is what will be done", "Context")
}
func toPIN(r *rig) { toReview(r); r.Press("enter"); r.Sees("PIN of trial") }

// TestGolden compares whole frames. go test -update writes them anew.
func TestGolden(t *testing.T) {
	sizes := [][2]int{{80, 24}, {100, 30}, {60, 15}, {200, 50}}
	for _, s := range scenes(t) {
		f := newFake()
		if s.fake != nil {
			s.fake(f)
		}
		t.Run(s.name, func(t *testing.T) {
			r := newRig(t, f, 120, 40, s.start)
			s.walk(r)
			frame := func(name string, w, h int) {
				r.Send(tea.WindowSizeMsg{Width: w, Height: h})
				v := r.m.View()
				checkFrame(t, v, w, h)
				t.Run(name, func(t *testing.T) { golden.RequireEqual(t, v.Content) })
			}
			frame("dark", 80, 24)
			r.Send(tea.BackgroundColorMsg{Color: color.White})
			frame("light", 80, 24)
			r.noColour()
			for _, size := range sizes {
				frame(fmt.Sprintf("no-color-%dx%d", size[0], size[1]), size[0], size[1])
			}
			r.Send(tea.WindowSizeMsg{Width: 300, Height: 80})
			checkFrame(t, r.m.View(), 300, 80)
		})
	}
}

// checkFrame wants every line to be exactly as wide as the terminal, exactly as
// many as it has, and the cursor inside.
func checkFrame(t *testing.T, v tea.View, w, h int) {
	t.Helper()
	lines := strings.Split(v.Content, "\n")
	if len(lines) != h {
		t.Errorf("%dx%d: %d lines", w, h, len(lines))
	}
	for i, l := range lines {
		if n := ansi.StringWidth(l); n != w {
			t.Errorf("%dx%d: line %d is %d columns wide: %q", w, h, i, n, l)
		}
	}
	if c := v.Cursor; c != nil && (c.X < 0 || c.X >= w || c.Y < 0 || c.Y >= h) {
		t.Errorf("%dx%d: the cursor is at %d,%d", w, h, c.X, c.Y)
	}
	if strings.Contains(v.Content, widget.CursorMark()) {
		t.Errorf("%dx%d: a cursor mark is left", w, h)
	}
}

// TestNoColourHasNoColour: under NO_COLOR no frame sets a colour.
func TestNoColourHasNoColour(t *testing.T) {
	files, err := filepath.Glob("testdata/TestGolden/*/no-color-*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("no frames: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, seq := range strings.Split(string(b), "\x1b[")[1:] {
			params, _, _ := strings.Cut(seq, "m")
			for _, p := range strings.Split(params, ";") {
				switch p {
				case "", "0", "1", "2", "4", "7":
				default:
					t.Errorf("%s: SGR %q", f, params)
				}
			}
		}
	}
}

package tui

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

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
	r.Sees("This is what will be done", "Enrollment")
}
func toPIN(r *rig) { toReview(r); r.Press("enter"); r.Sees("PIN of trial") }

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

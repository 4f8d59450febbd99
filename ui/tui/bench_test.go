package tui_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// manyRequests has as many requests as a busy cluster has.
func (w *world) manyRequests(n int) {
	w.T.Helper()
	for i := range n {
		w.request(fmt.Sprintf("many-%d", i), "jane", fmt.Sprintf("user-%d", i), time.Duration(i)*time.Second, "dev")
	}
}

// BenchmarkKeyToFrame measures a key press up to the frame it makes, on a token
// with 1,000 keys, in a kubeconfig of 5,000 contexts, and among 10,000 requests.
// p99-ms is what the slowest of a hundred took, in milliseconds.
func BenchmarkKeyToFrame(b *testing.B) {
	w := newWorld(b)
	for i := range 1000 {
		w.Generate(w.soft, hsm.GenerateOptions{Label: fmt.Sprintf("key %d", i)})
	}
	var items strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&items, "- context: {cluster: staging, user: jane}\n  name: x-context-%d\n", i)
	}
	many := strings.Replace(w.Kubeconfig(), "\ncontexts:\n", "\ncontexts:\n"+items.String(), 1)
	must.OK(b, os.WriteFile(w.Env.Kubeconfig, []byte(many), 0o600))
	w.manyRequests(10_000)
	for name, walk := range map[string]func(*rig){
		"tokens":   func(*rig) {},
		"token":    func(r *rig) { r.Press("enter"); r.Sees("change PIN") },
		"contexts": func(r *rig) { r.Press("2"); r.Sees("x-context-100") },
		"requests": func(r *rig) { r.Press("3"); r.Sees("10002 requests pending") },
		"palette":  func(r *rig) { r.Press("ctrl+p") },
		"wizard":   func(r *rig) { r.Press("e"); r.Sees("This is what will be done"); r.Press("s"); r.Sees("new key") },
	} {
		b.Run(name, func(b *testing.B) {
			r := w.open(120, 40)
			defer r.Close()
			r.Sees("tries left")
			walk(r)
			down := tea.KeyPressMsg{Code: tea.KeyDown}
			var took []time.Duration
			b.ResetTimer()
			for b.Loop() {
				began := time.Now()
				r.Model().Update(down)
				_ = r.Frame()
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100])/float64(time.Millisecond), "p99-ms")
		})
	}
}

// BenchmarkFirstFrame measures how long the model takes from nothing to its
// first frame, before anything was read.
func BenchmarkFirstFrame(b *testing.B) {
	w := screentest.New(b)
	for b.Loop() {
		m, end := tui.Model(b.Context(), tui.Options{Env: w.Env, Environ: []string{"LANG=C.UTF-8"}}, tuitest.Now)
		m.Init()
		m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
		if m.View().Content == "" {
			b.Fatal("no frame")
		}
		end(0)
	}
}

// BenchmarkFilter measures a letter typed into the filter of 10,000 requests.
func BenchmarkFilter(b *testing.B) {
	w := newWorld(b)
	w.manyRequests(10_000)
	r := w.open(120, 40)
	r.Sees("tries left")
	r.Press("3")
	r.Sees("10002 requests pending")
	r.Press("/")
	letter, back := tea.KeyPressMsg{Code: '9', Text: "9"}, tea.KeyPressMsg{Code: tea.KeyBackspace}
	for b.Loop() {
		for _, k := range []tea.KeyPressMsg{letter, letter, back, back} {
			r.Model().Update(k)
			_ = r.Frame()
		}
	}
}

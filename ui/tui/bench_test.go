package tui

import (
	"fmt"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// BenchmarkKeyToFrame measures a key press up to the frame it makes, on a token
// with 1,000 keys, in a kubeconfig of 5,000 contexts, and among 10,000 requests.
// p99-ms is what the slowest of a hundred took, in milliseconds.
func BenchmarkKeyToFrame(b *testing.B) {
	f := newFake()
	u := f.tokens[0].Info.URI()
	for i := range 1000 {
		u.ID = []byte{byte(i >> 8), byte(i)}
		f.tokens[0].Slots = append(f.tokens[0].Slots, hsm.Slot{URI: u, ID: fmt.Sprintf("%04x", i), Label: fmt.Sprintf("key %d", i),
			Key: &hsm.Key{Algorithm: hsm.ECDSAP256, Public: fakeKey(int64(i + 1))}})
	}
	for i := range 5000 {
		f.contexts = append(f.contexts, contexts.View{Name: fmt.Sprintf("context-%d", i), Server: "https://cluster.example.com:6443"})
	}
	f.requests = manyRequests(10_000)
	for name, walk := range map[string]func(*rig){
		"tokens":   func(*rig) {},
		"token":    func(r *rig) { r.Press("enter"); r.Sees("change PIN") },
		"contexts": func(r *rig) { r.goTo("Contexts"); r.Sees("context-20") },
		"requests": func(r *rig) { r.goTo("Requests"); r.Sees("10000 requests pending") },
		"palette":  func(r *rig) { r.Press("ctrl+p") },
		"wizard":   func(r *rig) { r.Press("e"); r.Sees("A new key"); r.Press("enter", "enter"); r.Sees("trial-admin") },
	} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, f, 120, 40)
			r.Sees("trial")
			walk(r)
			down := tea.KeyPressMsg{Code: tea.KeyDown}
			var took []time.Duration
			b.ResetTimer()
			for b.Loop() {
				began := time.Now()
				r.m.Update(down)
				_ = r.m.View()
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
	f := newFake()
	for b.Loop() {
		m := newModelWith(b.Context(), Options{Backend: f, Flow: &env.Env{}, Env: []string{"LANG=C.UTF-8"}}, timing{clock: fakeNow})
		m.Init()
		m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
		if m.View().Content == "" {
			b.Fatal("no frame")
		}
		m.close(0)
	}
}

// BenchmarkFilter measures a letter typed into the filter of 10,000 requests.
func BenchmarkFilter(b *testing.B) {
	f := newFake()
	f.requests = manyRequests(10_000)
	r := newRig(b, f, 120, 40)
	r.Sees("trial")
	r.goTo("Requests")
	r.Sees("10000 requests pending")
	r.Press("/")
	letter, back := tea.KeyPressMsg{Code: '9', Text: "9"}, tea.KeyPressMsg{Code: tea.KeyBackspace}
	for b.Loop() {
		for _, k := range []tea.KeyPressMsg{letter, letter, back, back} {
			r.m.Update(k)
			_ = r.m.View()
		}
	}
}

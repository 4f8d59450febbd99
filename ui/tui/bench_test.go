package tui

import (
	"fmt"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow"
)

// BenchmarkKeyToFrame measures a key press up to the frame it makes, on a token
// with 1,000 keys and in a kubeconfig of 5,000 contexts.
func BenchmarkKeyToFrame(b *testing.B) {
	f := newFake()
	u := f.tokens[0].Info.URI()
	for i := range 1000 {
		u.ID = []byte{byte(i >> 8), byte(i)}
		f.tokens[0].Slots = append(f.tokens[0].Slots, hsm.Slot{URI: u, ID: fmt.Sprintf("%04x", i), Label: fmt.Sprintf("key %d", i),
			Key: &hsm.Key{Algorithm: hsm.ECDSAP256, Public: fakeKey(int64(i + 1))}})
	}
	for i := range 5000 {
		f.contexts = append(f.contexts, flow.ContextView{Name: fmt.Sprintf("context-%d", i), Server: "https://cluster.example.com:6443"})
	}
	for name, walk := range map[string]func(*rig){
		"tokens":   func(*rig) {},
		"contexts": func(r *rig) { r.press("enter"); r.sees("A new key"); r.press("enter", "enter"); r.sees("trial-admin") },
	} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, f, 120, 40)
			r.sees("trial")
			walk(r)
			down := tea.KeyPressMsg{Code: tea.KeyDown}
			b.ResetTimer()
			for b.Loop() {
				r.m.Update(down)
				_ = r.m.View()
			}
		})
	}
}

package doctor

import (
	"slices"
	"testing"

	"github.com/kubehsm/kubehsm/ui/present"
)

// TestAdvice: each problem comes with why it matters and what mends it.
func TestAdvice(t *testing.T) {
	for state, level := range map[State]present.Level{OK: present.Good, Unknown: present.Warn, Warning: present.Warn,
		Failed: present.Bad, State("odd"): present.Quiet} {
		c := Check{State: state, Why: "it matters", Fix: "do this"}
		want := []string{"it matters", "To mend it: do this"}
		if state == OK {
			want = nil
		}
		if got := c.Advice(); state.Level() != level || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %q", state, state.Level(), got)
		}
	}
}

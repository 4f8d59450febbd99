package slotview

import "testing"

// TestColumnsFill: with the mark before it, a row takes the whole width.
func TestColumnsFill(t *testing.T) {
	for _, m := range []Measure{{id: 4}, {id: 12, label: 20}} {
		for _, w := range []int{60, 80, 100} {
			c, total := m.For(w), 2
			for _, x := range []int{c.id, c.label, c.key, c.pin, c.touch, c.cert, c.expires, c.bar} {
				if x > 0 {
					total += x + columnGap
				}
			}
			if total != w {
				t.Errorf("%+v in %d columns takes %d", m, w, total)
			}
		}
	}
}

//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
)

func TestMeasureKnowsTheSides(t *testing.T) {
	slow := program{path: "/bin/sh", args: []string{"-c", "sleep 0.2"}}
	fast := program{path: "/bin/true"}
	p, err := measure(t.Context(), 3, slow, fast)
	must.OK(t, err)
	if p.ours < 200*time.Millisecond { // sleep never sleeps less
		t.Errorf("the sides are mixed up: %v", p)
	}
	if _, err := measure(t.Context(), 1, program{path: "/bin/false"}, fast); err == nil {
		t.Error("a failing program was measured")
	}
}

// TestInterval holds what is sure, and is as wide as the measurements differ.
func TestInterval(t *testing.T) {
	same, spread, twice := make([]time.Duration, 100), make([]time.Duration, 100), make([]time.Duration, 100)
	for i := range same {
		same[i], spread[i] = time.Second, time.Second+time.Duration(i-50)*time.Millisecond
		twice[i] = 2 * spread[i]
	}
	for _, tc := range []struct {
		name      string
		a, b      []time.Duration
		low, high [2]float64 // from, to
	}{
		{"all the same", same, same, [2]float64{1, 1}, [2]float64{1, 1}},
		{"each twice its partner", twice, spread, [2]float64{2, 2}, [2]float64{2, 2}}, // drawn in pairs
		{"spread", spread, same, [2]float64{0.98, 0.995}, [2]float64{1.002, 1.02}},
	} {
		low, high := interval(tc.a, tc.b)
		if low < tc.low[0] || low > tc.low[1] || high < tc.high[0] || high > tc.high[1] {
			t.Errorf("%s: %v to %v", tc.name, low, high)
		}
	}
}

//go:build linux

package main

import (
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		in   []time.Duration
		want time.Duration
	}{{[]time.Duration{3, 1, 2}, 2}, {[]time.Duration{4, 1, 3, 2}, 2}, {[]time.Duration{9, 1, 5, 7}, 6},
		{[]time.Duration{5}, 5}} {
		if got := median(tc.in); got != tc.want {
			t.Errorf("median(%v) = %v, want %v", tc.in, got, tc.want)
		}
	}
}

func TestMeasureKnowsTheSides(t *testing.T) {
	slow := program{path: "/bin/sh", args: []string{"-c", "sleep 0.2"}}
	fast := program{path: "/bin/true"}
	p, err := measure(t.Context(), 3, slow, fast)
	if err != nil {
		t.Fatal(err)
	}
	if p.ours < 200*time.Millisecond { // sleep never sleeps less
		t.Errorf("the sides are mixed up: %v", p)
	}
	if _, err := measure(t.Context(), 1, program{path: "/bin/false"}, fast); err == nil {
		t.Error("a failing program was measured")
	}
}

//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestPage(t *testing.T) {
	var p page
	p.measured(row{what: "ours", against: "theirs", bar: 1.3,
		pair: pair{ours: 3 * time.Millisecond, theirs: 2 * time.Millisecond, low: 1.404, high: 1.606}})
	p.measured(row{what: "one", against: "another", pair: pair{ours: 2 * time.Millisecond, theirs: 2 * time.Millisecond}})
	p.found("signatures", "1", "%d", 7)
	text, err := p.text(60, []string{"cold"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| ours | theirs | **1.50** (1.40–1.61) | 1.3 | 3.0 ms / 2.0 ms |",
		"| one | another | **1.00** | – | 2.0 ms / 2.0 ms |", "| signatures | **7** | 1 |",
		"failed, wholly or in part: cold."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for bar, want := range map[float64]string{0: "–", 2: "2.0", 1.12: "1.12", 1.6: "1.6"} {
		if got := barText(bar); got != want {
			t.Errorf("%v is %q", bar, got)
		}
	}
}

// TestOnly: a name that is none is said before anything is started.
func TestOnly(t *testing.T) {
	if err := run(t.Context(), 1, "", "cold,hot"); err == nil || !strings.Contains(err.Error(), `"hot"`) ||
		!strings.Contains(err.Error(), "servers") {
		t.Error(err)
	}
}

package present

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{7 * time.Second: "7 s", 185 * time.Second: "3 min 05 s",
		130 * time.Minute: "2 h 10 min", -time.Second: "0 s"} {
		if got := Elapsed(d); got != want {
			t.Errorf("Elapsed(%v) = %q, want %q", d, got, want)
		}
	}
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{time.Second: "under 1 min", 90 * time.Minute: "90 min",
		40 * time.Hour: "40 h", 89 * day: "89 d", 1100 * day: "3 y"} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %q, want %q", d, got, want)
		}
	}
}

package span

import (
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Second: "under 1 min", 90 * time.Minute: "90 min", time.Hour: "1 h",
		40 * time.Hour: "40 h", 89 * day: "89 d", 89*day - time.Minute: "89 d", 89*day - 2*time.Hour: "88 d", 1100 * day: "3 y",
		365*day - time.Hour: "1 y", 366 * day: "1 y", 364 * day: "364 d", 400 * day: "400 d", 730*day - time.Hour: "2 y"} {
		if got := Of(d); got != want {
			t.Errorf("Of(%v) = %q, want %q", d, got, want)
		}
	}
}

// TestLimit: a limit is in words, and whole.
func TestLimit(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"15 seconds": 15 * time.Second, "1 second": time.Second, "0.3 seconds": 300 * time.Millisecond,
		"4.5 seconds": 4500 * time.Millisecond, "90 seconds": 90 * time.Second, "1 minute": time.Minute,
		"2 minutes": 2 * time.Minute, "1 hour": time.Hour, "24 hours": day, "0 seconds": 0,
	} {
		if got := Limit(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

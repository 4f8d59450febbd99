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

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
}

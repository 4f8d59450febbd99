package expiry

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		lived, left time.Duration
		due         bool
		words       string
	}{
		{0, 365 * aDay, false, "ends in 365 days"},
		{300 * aDay, 65 * aDay, false, "ends in 65 days"},
		{336 * aDay, 29 * aDay, true, "ends in 29 days"},
		{5 * time.Hour, 3 * time.Hour, false, "ends in 3 hours"},
		{5 * time.Hour, 2 * time.Hour, true, "ends in 2 hours"},
		{59 * time.Minute, time.Minute, true, "ends in 1 minute"},
		{time.Hour, -time.Minute, true, "ended 1 minute ago"},
		{time.Hour, -50 * time.Hour, true, "ended 2 days ago"},
	} {
		from, to := now.Add(-c.lived), now.Add(c.left)
		if Due(from, to, now) != c.due || Left(to, now) != c.words {
			t.Errorf("%v lived, %v left: %v, %s", c.lived, c.left, Due(from, to, now), Left(to, now))
		}
		w := Warning("prod", "kubehsm join --name prod", from, to, now)
		if (w != "") != c.due || c.due && !strings.Contains(w, c.words) || strings.Contains(w, "join") != (c.left < 0) {
			t.Errorf("%v left: %q", c.left, w)
		}
	}
}

func TestOnceADay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "warned")
	now := time.Now()
	for i, c := range []struct {
		name string
		at   time.Duration
		want bool
	}{
		{"a", 0, true}, {"a", time.Hour, false}, {"b", time.Hour, true}, {"a", 23 * time.Hour, false},
		{"a", 25 * time.Hour, true}, {"a", 26 * time.Hour, false},
		{"a", 0, true}, // the clock was set back: a mark in the future silences nothing
	} {
		if got := OnceADay(dir, c.name, now.Add(c.at)); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
	if !OnceADay("/dev/null/x", "a", now) {
		t.Error("silent where no mark can be set")
	}
}

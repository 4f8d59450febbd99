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
		w := WarningOf("prod", "kubehsm join --name prod", to, now)
		if !strings.Contains(w, c.words) || !strings.HasSuffix(w, ": run `kubehsm join --name prod`") {
			t.Errorf("%v left: %q", c.left, w)
		}
	}
}

// TestDueInTime: a certificate is due before people go home, as long as it still
// can ask for its successor, and not as soon as it is there. Clocks are local.
func TestDueInTime(t *testing.T) {
	zone := time.FixedZone("somewhere", -7*3600)
	// the 1st is a Tuesday
	at := func(day, hour, minute int) time.Time { return time.Date(2030, 1, day, hour, minute, 0, 0, zone) }
	for _, c := range []struct {
		name     string
		issued   time.Time
		life     time.Duration
		from     time.Time
		workdays bool // looked at on working days, from 9 to 17 o'clock, only
	}{
		{"1 h in the morning", at(1, 9, 0), time.Hour, at(1, 9, 40), false},
		{"1 h in the afternoon", at(1, 15, 0), time.Hour, at(1, 15, 40), false},
		{"8 h from the morning on", at(1, 8, 0), 8 * time.Hour, at(1, 12, 0), true},
		{"8 h from noon on", at(1, 13, 0), 8 * time.Hour, at(1, 15, 0), true},
		{"24 h", at(1, 9, 0), aDay, at(1, 12, 0), true},
		{"24 h, at ten", at(1, 10, 0), aDay, at(1, 12, 0), true},
		{"24 h, after ten", at(1, 11, 0), aDay, at(2, 9, 0), true}, // a third is left since 3 o'clock
		{"24 h, late", at(1, 16, 0), aDay, at(2, 9, 0), true},
		{"24 h, on a Friday", at(4, 11, 0), aDay, at(4, 13, 0), true},
		{"3 days, over the weekend", at(4, 9, 0), 3 * aDay, at(4, 12, 0), true},
		{"3 days, to Sunday", at(3, 9, 0), 3 * aDay, at(4, 12, 0), true},
		{"7 days", at(1, 9, 0), 7 * aDay, at(6, 1, 0), false},
		{"30 days", at(1, 9, 0), 30 * aDay, at(21, 9, 0), false},
		{"1 year", at(1, 9, 0), 365 * aDay, at(1, 9, 0).AddDate(0, 0, 335), false},
	} {
		notBefore, notAfter := c.issued.Add(-5*time.Minute), c.issued.Add(c.life) // signers backdate by five minutes
		var first time.Time
		for now := c.issued; !now.After(notAfter); now = now.Add(time.Minute) {
			weekend := now.Weekday() == time.Saturday || now.Weekday() == time.Sunday
			if (Due(notBefore, notAfter, now) || Renews(notBefore, notAfter, now)) && now.Before(RenewableFrom(notBefore, notAfter)) {
				t.Fatalf("%s: due at %s, and renewable later", c.name, now.Format(time.ANSIC))
			}
			if c.workdays && (weekend || now.Hour() < 9 || now.Hour() >= 17) {
				continue
			}
			if due := Due(notBefore, notAfter, now); due && first.IsZero() {
				first = now
			}
		}
		if d := first.Sub(c.from).Abs(); first.IsZero() || d > 10*time.Minute {
			t.Errorf("%s: due from %s on, want %s", c.name, first.Format(time.ANSIC), c.from.Format(time.ANSIC))
		}
		if first.After(notAfter) || Due(notBefore, notAfter, c.issued) || !Due(notBefore, notAfter, notAfter.Add(time.Hour)) {
			t.Errorf("%s: due at once, or not when it has ended", c.name)
		}
	}
}

func TestOnceADay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "warned")
	now := time.Now()
	ends, renewed := now.Add(aDay), now.Add(2*aDay)
	for i, c := range []struct {
		name     string
		notAfter time.Time
		at       time.Duration
		want     bool
	}{
		{"a", ends, 0, true}, {"a", ends, time.Hour, false}, {"b", ends, time.Hour, true}, {"a", ends, 23 * time.Hour, false},
		{"a", renewed, 23 * time.Hour, true}, {"a", renewed, 24 * time.Hour, false},
		{"a", renewed, 48 * time.Hour, true}, {"a", renewed, 49 * time.Hour, false},
		{"a", renewed, 0, true}, // the clock was set back: a mark in the future silences nothing
	} {
		if got := OnceADay(dir, c.name, c.notAfter, now.Add(c.at)); got != c.want {
			t.Errorf("%d: %v", i, got)
		}
	}
	if !OnceADay("/dev/null/x", "a", ends, now) {
		t.Error("silent where no mark can be set")
	}
}

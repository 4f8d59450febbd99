package expiry

import (
	"testing"
	"time"
)

// TestRenews: certificates are renewed at two thirds of their lives, while people work, unless they
// would end before.
func TestRenews(t *testing.T) {
	zone := time.FixedZone("somewhere", 9*3600)
	// the 1st is a Tuesday
	at := func(day, hour, minute int) time.Time { return time.Date(2030, 1, day, hour, minute, 0, 0, zone) }
	for _, c := range []struct {
		name   string
		issued time.Time
		life   time.Duration
		first  time.Time
		left   bool // still left to the agent then
	}{
		{"10 min", at(1, 9, 0), 10 * time.Minute, at(1, 9, 7), true},
		{"10 min at night", at(1, 23, 0), 10 * time.Minute, at(1, 23, 7), true},
		{"8 h from the morning on", at(1, 9, 0), 8 * time.Hour, at(1, 14, 20), true},
		{"8 h from the afternoon on", at(1, 16, 0), 8 * time.Hour, at(1, 21, 20), true},
		{"24 h", at(1, 9, 0), 24 * time.Hour, at(2, 8, 0), false}, // the certificate ends at 9, in working time
		{"7 days, from Tuesday", at(1, 9, 0), 7 * 24 * time.Hour, at(7, 8, 0), true},
		{"7 days, from Friday", at(4, 12, 0), 7 * 24 * time.Hour, at(9, 8, 0), true},
		{"30 days", at(1, 9, 0), 30 * 24 * time.Hour, at(21, 9, 0), true},
		{"30 days, to a Saturday", at(3, 9, 0), 30 * 24 * time.Hour, at(23, 9, 0), true},
	} {
		end := c.issued.Add(c.life)
		var first time.Time
		for now := c.issued; now.Before(end) && first.IsZero(); now = now.Add(time.Minute) {
			if Renews(c.issued, end, now) {
				first = now
			}
		}
		if !first.Equal(c.first) || LeftToAgent(c.issued, end, first) != c.left {
			t.Errorf("%s: from %s on, left to the agent %t; want %s, %t", c.name, first.Format(time.ANSIC),
				LeftToAgent(c.issued, end, first), c.first.Format(time.ANSIC), c.left)
		}
		if Renews(c.issued, end, end) || LeftToAgent(c.issued, end, end) {
			t.Errorf("%s: when it has ended", c.name)
		}
	}
	if begin := at(1, 9, 0); Renews(begin, begin.AddDate(200, 0, 0), begin.AddDate(100, 0, 0)) {
		t.Error("200 years: renewed after half of them")
	}
}

package home

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"

	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

func certificates(now time.Time, left ...time.Duration) []enroll.Expiring {
	var all []enroll.Expiring
	for _, l := range left {
		all = append(all, enroll.Expiring{Name: "x", NotAfter: now.Add(l)})
	}
	return all
}

// TestScale: every end that is to come has its place before the last mark, sooner ends stand
// before later ones, and what has ended or cannot be read moves nothing.
func TestScale(t *testing.T) {
	now := time.Now()
	for _, left := range [][]time.Duration{{}, {-time.Hour}, {time.Minute}, {5 * time.Minute, 90 * 365 * day}, {80 * day},
		{time.Hour, day, 7 * day, 30 * day}, {250 * 365 * day}} {
		all := certificates(now, left...)
		s := scaleOf(append(all, enroll.Expiring{Err: errors.New("x"), NotAfter: now.Add(1000 * day)}), now)
		if len(s) < leastMarks {
			t.Errorf("%v: %d marks", left, len(s))
		}
		for w := 1; w < 100; w += 7 {
			last := -1
			for _, l := range left {
				at := s.at(l, w)
				if at < 0 || at >= w || at < last {
					t.Errorf("%v: %s is at %d of %d, after %d", left, l, at, w, last)
				}
				last = at
			}
		}
	}
	if s := scaleOf(certificates(now, 80*day), now); s[len(s)-1].label != "3 mo" {
		t.Errorf("80 days on %+v", s)
	}
}

// TestBars: a bar, the grid behind it and the axis are exactly as wide as they may be, however
// narrow that is.
func TestBars(t *testing.T) {
	now := time.Now()
	th := theme.New(theme.Options{Profile: colorprofile.ASCII})
	all := append(certificates(now, -time.Hour, 0, time.Second, day, 80*day, 100*365*day),
		enroll.Expiring{Err: errors.New("x")})
	s := scaleOf(all, now)
	for w := range 120 {
		for _, c := range all {
			if n := widget.Width(s.bar(th, c, now, w)); n > w {
				t.Errorf("a bar of %d columns for %d", n, w)
			}
		}
		if n := widget.Width(s.axis(w)); n > w {
			t.Errorf("an axis of %d columns for %d", n, w)
		}
	}
	if bar := s.bar(th, all[0], now, 40); !strings.Contains(bar, th.Glyphs.Failed) || strings.Contains(bar, th.Glyphs.On) {
		t.Errorf("what has ended has a bar: %q", bar)
	}
}

package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/colorprofile"

	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// titled is a screen that has no more than a title.
type titled struct {
	screen.Screen
	title string
}

func (s titled) Title() string { return s.title }

// TestHeaderAlwaysTellsWhereOneStands: on every screen and in every size that is drawn on, the
// lines above the screen are as wide as the terminal, and say the current context, or how it
// begins, and the state of its token, however long names are and whatever else goes on.
func TestHeaderAlwaysTellsWhereOneStands(t *testing.T) {
	th := theme.New(theme.Options{Profile: colorprofile.ASCII})
	now := time.Now()
	long := strings.Repeat("name-", 40)
	for what, c := range map[string]struct {
		status overview.Status
		state  string
	}{
		"locked": {overview.Status{Context: "prod", Enrollment: "prod", Lock: overview.Locked}, "locked"},
		"unlocked": {overview.Status{Context: "prod-" + long, Enrollment: "x", Lock: overview.Unlocked,
			Until: now.Add(10*time.Minute + time.Second)}, "unlocked 10 min"},
		"silent":  {overview.Status{Context: "prod", Enrollment: "prod", Lock: overview.Unknown}, "? unknown"},
		"other":   {overview.Status{Context: "prod"}, "not kubehsm's"},
		"hostile": {overview.Status{Context: "prod\x1b[2J\n" + long, Enrollment: "x", Lock: overview.Locked}, "locked"},
	} {
		for _, stack := range [][]screen.Screen{{titled{title: "Tokens"}},
			{titled{title: "Tokens"}, titled{title: "Enroll " + long}}} {
			n := &navigation{sections: []*section{{title: "Home", stack: stack}, {title: "Tokens"}, {title: "Requests"}}}
			for _, parts := range [][]string{nil,
				{"! read-only", "! waiting: the PIN of " + long, "! another kubehsm is open"}} {
				for w := 60; w < 210; w++ {
					for _, h := range []int{15, 24} {
						cv := newCanvas(th, w, h)
						stands := func(room int) string { return standing(th, c.status, now, room) }
						above := widget.Fit(cv.header(n, stands, parts), cv.inner()) // the page does the same
						if cv.rules > 0 {
							rule := cv.rule(stands, parts)
							if widget.Width(rule) != w {
								t.Fatalf("%s at %dx%d: the rule is %d wide: %s", what, w, h, widget.Width(rule), rule)
							}
							above += rule
						}
						for _, want := range []string{"prod", c.state} {
							if !strings.Contains(above, want) {
								t.Fatalf("%s at %dx%d does not tell %q: %s", what, w, h, want, above)
							}
						}
						if strings.ContainsAny(above, "\x07\n") || strings.Contains(above, "\x1b[2J") {
							t.Fatalf("%s: raw: %q", what, above)
						}
					}
				}
			}
		}
	}
}

// TestWaitings: what began to wait last is said, until it is over.
func TestWaitings(t *testing.T) {
	var w waitings
	for _, step := range []struct {
		msg  waitMsg
		want string
	}{{waitMsg{1, "for a PIN"}, "for a PIN"}, {waitMsg{2, "for a touch"}, "for a touch"}, {waitMsg{1, ""}, "for a touch"},
		{waitMsg{2, ""}, ""}, {waitMsg{2, ""}, ""}} {
		if w.take(step.msg); w.latest() != step.want {
			t.Errorf("after %+v: %q", step.msg, w.latest())
		}
	}
}

package enroll

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// commands are the commands that do the same as the wizard so far.
func (m *wizard) commands() []string {
	if m.at >= stageReview && m.plan.ready {
		return m.plan.Commands
	}
	o := m.opts
	args := []string{"kubehsm", "enroll"}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, shell.Quote(value))
		}
	}
	uri := func(flag string, u hsm.URI) {
		if u.Scheme != "" {
			add(flag, u.String())
		}
	}
	add("--name", o.Name)
	if o.Key.Scheme != "" {
		uri("--key", o.Key)
	} else {
		uri("--token", o.Token)
		add("--slot", o.Generate.Slot)
		add("--label", o.Generate.Label)
		add("--algorithm", string(o.Generate.Algorithm))
		if o.Generate.PIN != hsm.PINDefault {
			add("--pin-policy", o.Generate.PIN.String())
		}
		if o.Generate.Touch != hsm.TouchDefault {
			add("--touch-policy", o.Generate.Touch.String())
		}
	}
	add("--context", o.Context)
	add("--user", o.User)
	for _, g := range o.Groups {
		add("--group", g)
	}
	if o.Expiration != 0 {
		add("--expiration", o.Expiration.String())
	}
	add("--reason", o.Reason)
	return []string{strings.Join(args, " ")}
}

// heading draws a page's question, and a blank line where there is room.
func heading(t theme.Theme, question string, h int) []string {
	lines := []string{t.Title.Render(question)}
	if h >= 10 {
		lines = append(lines, "")
	}
	return lines
}

func percent(done, total int) string { return fmt.Sprintf("%d%%", 100*done/total) }

func count(done, total int) string { return fmt.Sprintf("%d of %d packages", done, total) }

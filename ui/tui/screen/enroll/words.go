package enroll

import (
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// commands are the commands that do the same as the wizard so far.
func (m *wizard) commands() []string {
	if m.at >= stageReview && m.plan.ready {
		return m.plan.Commands
	}
	o := m.opts
	if o.Key.Scheme != "" { // the key names its token, and is not generated
		o.Token, o.Generate = hsm.URI{}, hsm.GenerateOptions{}
	}
	return []string{m.Enroller.Command(o)}
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

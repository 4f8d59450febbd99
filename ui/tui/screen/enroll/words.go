package enroll

import "github.com/kubehsm/kubehsm/ui/tui/theme"

func (m *wizard) commands() []string {
	if m.at >= stageReview && m.plan.ready {
		return m.plan.Commands
	}
	return []string{m.Enroller.Command(m.opts)}
}

func heading(t theme.Theme, question string, h int) []string {
	lines := []string{t.Title.Render(question)}
	if h >= 10 {
		lines = append(lines, "")
	}
	return lines
}

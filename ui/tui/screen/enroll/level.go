package enroll

import (
	"charm.land/lipgloss/v2"

	"github.com/kubehsm/kubehsm/ui/tui/describe"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

func level(t theme.Theme, l describe.Level) lipgloss.Style {
	switch l {
	case describe.Good:
		return t.Good
	case describe.Warn:
		return t.Warn
	case describe.Bad:
		return t.Bad
	}
	return t.Muted
}

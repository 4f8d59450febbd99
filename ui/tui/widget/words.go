package widget

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Words draws clean text in lines of at most w columns. Commands, which have backticks around them,
// are drawn strong, and in quotes where that does not show.
func Words(t theme.Theme, style theme.Style, s string, w int) []string {
	quote := ""
	if t.Strong.Render("x") == style.Render("x") {
		quote = "'"
	}
	lines, command := text.Wrap(s, max(w, 1)), false
	for i, line := range lines {
		var drawn strings.Builder
		for j, part := range strings.Split(line, "`") {
			if j > 0 {
				command = !command
				drawn.WriteString(quote)
			}
			if command {
				drawn.WriteString(t.Strong.Render(part))
			} else {
				drawn.WriteString(style.Render(part))
			}
		}
		lines[i] = drawn.String()
	}
	return lines
}

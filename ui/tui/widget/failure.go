package widget

import (
	"errors"
	"strings"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Failure draws an error and its hint, cleaned, in lines of at most w columns, and
// what to send to an admin if rights are missing.
func Failure(t theme.Theme, err error, w int) []string {
	var lines []string
	for i, l := range text.Wrap("error: "+ui.Message(err), max(w-2, 1)) {
		head := "  "
		if i == 0 {
			head = t.Bad.Render(t.Glyphs.Failed) + " "
		}
		lines = append(lines, head+t.Bad.Render(l))
	}
	if hint := ui.Hint(err); hint != "" {
		for _, l := range Words(t, t.Text, "hint: "+hint, w-2) {
			lines = append(lines, "  "+l)
		}
	}
	var forbidden interface{ Grant() string }
	if errors.As(err, &forbidden) { // the hint says to send this to an admin
		for _, l := range strings.Split(text.CleanLines(strings.TrimRight(forbidden.Grant(), "\n")), "\n") {
			lines = append(lines, "  "+t.Muted.Render(Cut(l, w-2)))
		}
	}
	return lines
}

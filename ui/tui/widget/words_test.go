package widget_test

import (
	"testing"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// TestWords: a command stands out from the sentence by its style, across lines too, and by quotes where there are no
// styles. No line is wider than it may be.
func TestWords(t *testing.T) {
	plain, coloured := theme.New(theme.Options{Profile: colorprofile.ASCII}), theme.New(theme.Options{Profile: colorprofile.TrueColor})
	const hint = "start it with `sudo systemctl enable --now pcscd.socket`, then look"
	for what, c := range map[string]struct {
		theme theme.Theme
		width int
		first string
		rest  string
	}{
		"no styles":      {plain, 80, "start it with 'sudo systemctl enable --now pcscd.socket', then look", ""},
		"styles":         {coloured, 80, "start it with sudo systemctl enable --now pcscd.socket, then look", ""},
		"two lines":      {coloured, 40, "start it with sudo systemctl enable", "--now pcscd.socket, then look"},
		"no column":      {plain, 0, "s", "t"},
		"narrow, styles": {coloured, 14, "start it with", "sudo"},
	} {
		lines := widget.Words(c.theme, c.theme.Text, hint, c.width)
		if got := ansi.Strip(lines[0]); got != c.first {
			t.Errorf("%s: %q", what, got)
		}
		if c.rest != "" && ansi.Strip(lines[1]) != c.rest {
			t.Errorf("%s: %q", what, lines[1])
		}
		for _, l := range lines {
			if widget.Width(l) > max(c.width, 1) {
				t.Errorf("%s: too wide: %q", what, l)
			}
		}
	}
	strong := coloured.Strong.Render("--now pcscd.socket") + coloured.Text.Render(", then look")
	if lines := widget.Words(coloured, coloured.Text, hint, 40); lines[1] != strong {
		t.Errorf("%q, want %q", lines[1], strong)
	}
}

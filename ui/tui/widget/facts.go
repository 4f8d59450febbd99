package widget

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// Facts draws names and values in two columns; long values wrap, empty ones
// are left out.
func Facts(t theme.Theme, facts []present.Fact, w int) []string {
	name := 0
	for _, f := range facts {
		if f.Value != "" {
			name = max(name, Width(f.Name))
		}
	}
	var lines []string
	for _, f := range facts {
		if f.Value == "" {
			continue
		}
		style := t.Text
		if f.Level != present.Quiet {
			style = t.Level(f.Level)
		}
		for i, l := range Wrap(t.Marked(f), max(w-name-2, 8)) {
			head := strings.Repeat(" ", name)
			if i == 0 {
				head = t.Muted.Render(Fit(f.Name, name))
			}
			lines = append(lines, head+"  "+style.Render(l))
		}
	}
	return lines
}

// PlainFacts are names and values in two columns, a line each, for a text to copy.
func PlainFacts(facts []present.Fact) []string {
	name := 0
	for _, f := range facts {
		if f.Value != "" {
			name = max(name, Width(f.Name))
		}
	}
	var lines []string
	for _, f := range facts {
		if f.Value != "" {
			lines = append(lines, Fit(f.Name, name)+"  "+f.Value)
		}
	}
	return lines
}

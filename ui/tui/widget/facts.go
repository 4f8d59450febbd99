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

// Sections draws what is known of something, in parts: what is said of it, then facts.
func Sections(t theme.Theme, sections []present.Section, w int) []string {
	var lines []string
	for i, s := range sections {
		if i > 0 {
			lines = append(lines, "")
		}
		if s.Title != "" {
			lines = append(lines, t.Title.Render(s.Title))
		}
		lines = append(append(lines, Lines(t, s.Lines, w)...), Facts(t, s.Facts, w)...)
	}
	return lines
}

// Lines draws sentences, each with the sign of its level; several that have none are a
// list.
func Lines(t theme.Theme, all []present.Line, w int) []string {
	var lines []string
	for _, l := range all {
		style, sign := t.Text, ""
		switch {
		case l.Level == present.Bad:
			style, sign = t.Bad, t.Glyphs.Failed+" "
		case l.Level == present.Warn:
			style, sign = t.Warn, t.Glyphs.Warn+" "
		case len(all) > 1:
			sign = t.Glyphs.Dot + " "
		}
		rest := strings.Repeat(" ", Width(sign))
		for i, part := range Wrap(l.Words, max(w-len(rest), 1)) {
			if i > 0 {
				sign = rest
			}
			lines = append(lines, style.Render(sign+part))
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

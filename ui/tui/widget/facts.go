package widget

import (
	"strings"

	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
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
		for i, l := range text.Wrap(t.Marked(f), max(w-name-2, 8)) {
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
		lines = append(lines, Table(t, s.Table, w)...)
	}
	return lines
}

// PlainSections are sections as text that somebody else lays out, a line each.
func PlainSections(sections []present.Section) []string {
	var lines []string
	for i, s := range sections {
		if i > 0 {
			lines = append(lines, "")
		}
		if s.Title != "" {
			lines = append(lines, s.Title+":")
		}
		for _, l := range s.Lines {
			lines = append(lines, marked(l))
		}
		lines = append(lines, PlainFacts(s.Facts)...)
		for _, r := range s.Table.Rows {
			lines = append(lines, inOneLine(s.Table, r, marked))
		}
	}
	return lines
}

func marked(l present.Line) string {
	if l.Words != "" && l.Level >= present.Warn {
		return "! " + l.Words
	}
	return l.Words
}

// Table draws rows in columns, or each in a line of its own where they are too wide.
func Table(t theme.Theme, table present.Table, w int) []string {
	if len(table.Rows) == 0 {
		return nil
	}
	const gap = 2
	word := func(c present.Line) string { return t.Marked(present.Fact{Value: c.Words, Level: c.Level}) }
	style := func(l present.Level) theme.Style {
		if l == present.Quiet {
			return t.Text
		}
		return t.Level(l)
	}
	widths, all := make([]int, len(table.Heading)), -gap
	for i, h := range table.Heading {
		widths[i] = Width(h)
		for _, r := range table.Rows {
			widths[i] = max(widths[i], Width(word(r[i])))
		}
		all += widths[i] + gap
	}
	var lines []string
	if all > w {
		for _, r := range table.Rows {
			worst := present.Quiet
			for _, c := range r {
				worst = max(worst, c.Level)
			}
			lines = append(lines, Paragraph(style(worst), inOneLine(table, r, word), w)...)
		}
		return lines
	}
	row := func(cell func(i int) string) {
		line := ""
		for i, width := range widths {
			line += Fit(cell(i), width) + strings.Repeat(" ", gap)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	row(func(i int) string { return t.Faint.Render(table.Heading[i]) })
	for _, r := range table.Rows {
		row(func(i int) string { return style(r[i].Level).Render(word(r[i])) })
	}
	return lines
}

func inOneLine(table present.Table, row []present.Line, word func(present.Line) string) string {
	var parts []string
	for i, c := range row {
		if c.Words != "" {
			parts = append(parts, strings.TrimLeft(table.Lead[i]+" "+word(c), " "))
		}
	}
	return strings.Join(parts, ", ")
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
		for i, part := range text.Wrap(l.Words, max(w-len(rest), 1)) {
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

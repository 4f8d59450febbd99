package theme

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// Style is how text looks. A frame is hundreds of texts: what stands before and
// after each is worked out once, by lipgloss.
type Style struct {
	style         lipgloss.Style
	before, after string
}

func newStyle(s lipgloss.Style) Style {
	const text = "x"
	before, after, _ := strings.Cut(s.Render(text), text)
	return Style{style: s, before: before, after: after}
}

// Render returns one line of text in the style, and nothing for nothing.
func (s Style) Render(text string) string {
	switch {
	case text == "":
		return ""
	case strings.ContainsAny(text, "\n\t"):
		return s.style.Render(text)
	}
	return s.before + text + s.after
}

// Bold is the style in bold.
func (s Style) Bold() Style { return newStyle(s.style.Bold(true)) }

// Underline is the style, underlined.
func (s Style) Underline() Style { return newStyle(s.style.Underline(true)) }

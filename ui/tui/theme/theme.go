// Package theme holds the one look of the terminal UI: a palette for light and
// dark backgrounds, for full colour, for 256 colours and for the 16 of a plain
// terminal, and none at all under NO_COLOR. Colour is never the only sign: every state
// also has a glyph or a word, and the selected line a mark.
package theme

import (
	"image/color"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
)

// Options say which look is wanted.
type Options struct {
	// Light is true on a light terminal background.
	Light bool
	// Profile is what the terminal can show; ASCII and below mean no colour.
	Profile colorprofile.Profile
	// ASCII draws with plain ASCII characters, for terminals that are not UTF-8.
	ASCII bool
}

// Theme is the set of styles and glyphs that screens draw with. It is a value:
// a new one replaces it when the background or the profile becomes known.
type Theme struct {
	Brand    Style // the program's name
	Title    Style // headings and questions
	Text     Style
	Strong   Style // names
	Muted    Style // secondary text
	Faint    Style // rules, disabled things
	Accent   Style // the choice, keys
	Good     Style
	Warn     Style
	Bad      Style
	Selected Style // the line under the cursor
	Button   Style // the focused button of a dialog
	Behind   Style // the screen behind a dialog
	DiffAdd  Style
	DiffDel  Style
	DiffHunk Style

	Glyphs Glyphs
	// Light is true on a light background.
	Light bool
}

// Glyphs are the signs drawn. Each is one column wide.
type Glyphs struct {
	Mark, Done, Failed, Pending, Reused, Warn, Dot, On, Off string
	Full, Empty, Bullet, Rule, Bar, More, Up, Down, Sep     string
	Left, Right                                             string
	Spinner                                                 []string
	Border                                                  lipgloss.Border
}

type palette struct {
	text, strong, muted, faint, accent, good, warn, bad, selected, onAccent color.Color
}

// New makes a theme.
func New(o Options) Theme {
	p := colours(o)
	fg := func(c color.Color) lipgloss.Style {
		if c == nil {
			return lipgloss.NewStyle()
		}
		return lipgloss.NewStyle().Foreground(c)
	}
	selected, button, faint := fg(p.strong).Bold(true), fg(p.onAccent).Bold(true), fg(p.faint)
	if p.selected != nil {
		selected = selected.Background(p.selected)
	}
	if p.accent != nil {
		button = button.Background(p.accent)
	} else {
		button, faint = button.Reverse(true), faint.Faint(true)
	}
	t := Theme{
		Brand:    newStyle(fg(p.accent).Bold(true)),
		Title:    newStyle(fg(p.strong).Bold(true)),
		Text:     newStyle(fg(p.text)),
		Strong:   newStyle(fg(p.strong)),
		Muted:    newStyle(fg(p.muted)),
		Faint:    newStyle(faint),
		Accent:   newStyle(fg(p.accent)),
		Good:     newStyle(fg(p.good)),
		Warn:     newStyle(fg(p.warn)),
		Bad:      newStyle(fg(p.bad)),
		Selected: newStyle(selected),
		Button:   newStyle(button),
		Behind:   newStyle(faint),
		DiffAdd:  newStyle(fg(p.good)),
		DiffDel:  newStyle(fg(p.bad)),
		DiffHunk: newStyle(fg(p.accent)),
		Glyphs:   unicodeGlyphs(),
		Light:    o.Light,
	}
	if o.ASCII {
		t.Glyphs = asciiGlyphs()
	}
	return t
}

// colours are chosen by hand for each number of colours: the nearest of 256 to a bluish grey is
// purple. Faint text too keeps a contrast of 4.5 to 1 (WCAG, text) on black and on white.
func colours(o Options) palette {
	c := lipgloss.Color
	switch {
	case o.Profile <= colorprofile.ASCII:
		return palette{}
	case o.Profile == colorprofile.ANSI && o.Light:
		return palette{muted: c("8"), faint: c("8"), accent: c("4"), good: c("2"), warn: c("3"), bad: c("1"),
			onAccent: c("15")}
	case o.Profile == colorprofile.ANSI:
		return palette{strong: c("15"), muted: c("7"), faint: c("8"), accent: c("12"), good: c("10"), warn: c("11"),
			bad: c("9"), onAccent: c("0")}
	case o.Profile == colorprofile.ANSI256 && o.Light:
		return palette{
			selected: c("254"),
			text:     c("236"), strong: c("232"), muted: c("240"), faint: c("242"), accent: c("25"),
			good: c("28"), warn: c("94"), bad: c("124"), onAccent: c("231"),
		}
	case o.Profile == colorprofile.ANSI256:
		return palette{
			selected: c("237"),
			text:     c("252"), strong: c("255"), muted: c("248"), faint: c("244"), accent: c("75"),
			good: c("78"), warn: c("179"), bad: c("210"), onAccent: c("232"),
		}
	case o.Light:
		return palette{
			selected: c("#e3ecf6"),
			text:     c("#2f3542"), strong: c("#10141c"), muted: c("#4f5867"), faint: c("#69727f"), accent: c("#0b62a8"),
			good: c("#1c7a43"), warn: c("#8a5708"), bad: c("#b3262f"), onAccent: c("#ffffff"),
		}
	}
	return palette{
		selected: c("#22303f"),
		text:     c("#c9d1dc"), strong: c("#f1f5fa"), muted: c("#9aa5b4"), faint: c("#788393"), accent: c("#6cb6ff"),
		good: c("#6fcf97"), warn: c("#e5b567"), bad: c("#f2777a"), onAccent: c("#0d1520"),
	}
}

package widget

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

const maxInput = 512

// Input is a one-line text field for text that is not secret. It edits whole
// characters as they are seen (grapheme clusters).
//
// The textinput of bubbles edits runes: backspace takes a family, a flag or an
// accented letter apart. It puts the terminal's cursor where it would be if each
// rune were one column wide, which input methods for Chinese or Japanese follow. It
// draws text as it is, so that a right-to-left override turns the line around, and
// its ctrl+v runs a program that reads the clipboard.
type Input struct {
	chars []string
	pos   int
	// Placeholder is shown while the field is empty.
	Placeholder string
}

// NewInput returns a field that holds s, the cursor at its end.
func NewInput(s, placeholder string) Input {
	in := Input{Placeholder: placeholder}
	in.Set(s)
	return in
}

// Set replaces the text and puts the cursor at its end.
func (in *Input) Set(s string) {
	in.chars = clusters(printable(s))
	in.pos = len(in.chars)
}

// Value returns the text.
func (in *Input) Value() string { return strings.Join(in.chars, "") }

// Update edits the text. It reports whether the message was one of its own.
func (in *Input) Update(msg tea.Msg) bool {
	switch m := msg.(type) {
	case tea.PasteMsg:
		in.insert(strings.TrimSpace(m.Content))
		return true
	case tea.KeyPressMsg:
		return in.key(m)
	}
	return false
}

// Edits reports whether k is text or one of the keys with which a shell's line is edited, and
// so belongs to the field where something is typed, not to what scrolls beside it.
func Edits(k tea.KeyPressMsg) bool {
	switch k.String() {
	case "ctrl+a", "ctrl+b", "ctrl+d", "ctrl+e", "ctrl+f", "ctrl+h", "ctrl+k", "ctrl+u", "ctrl+w", "alt+b",
		"alt+d", "alt+f", "alt+backspace", "backspace", "delete", "left", "right", "alt+left", "alt+right", "ctrl+left",
		"ctrl+right", "home", "end":
		return true
	}
	return k.Text != ""
}

func (in *Input) key(m tea.KeyPressMsg) bool {
	switch m.String() {
	case "left", "ctrl+b":
		in.pos = max(in.pos-1, 0)
	case "right", "ctrl+f":
		in.pos = min(in.pos+1, len(in.chars))
	case "home", "ctrl+a":
		in.pos = 0
	case "end", "ctrl+e":
		in.pos = len(in.chars)
	case "backspace", "ctrl+h":
		if in.pos > 0 {
			in.cut(in.pos-1, in.pos)
		}
	case "delete", "ctrl+d":
		if in.pos < len(in.chars) {
			in.cut(in.pos, in.pos+1)
		}
	case "ctrl+u":
		in.cut(0, in.pos)
	case "ctrl+k":
		in.cut(in.pos, len(in.chars))
	case "alt+b", "alt+left", "ctrl+left":
		in.pos = in.before()
	case "alt+f", "alt+right", "ctrl+right":
		in.pos = in.after()
	case "alt+d":
		in.cut(in.pos, in.after())
	case "ctrl+w", "alt+backspace":
		in.cut(in.before(), in.pos)
	default:
		if m.Text == "" {
			return false
		}
		in.insert(m.Text)
	}
	return true
}

func (in *Input) before() int {
	at := in.pos
	for at > 0 && in.chars[at-1] == " " {
		at--
	}
	for at > 0 && in.chars[at-1] != " " {
		at--
	}
	return at
}

func (in *Input) after() int {
	at := in.pos
	for at < len(in.chars) && in.chars[at] == " " {
		at++
	}
	for at < len(in.chars) && in.chars[at] != " " {
		at++
	}
	return at
}

func (in *Input) cut(from, to int) {
	in.chars = slices.Delete(in.chars, from, to)
	in.pos = from
}

func (in *Input) insert(s string) {
	before := strings.Join(in.chars[:in.pos], "") + printable(s)
	all := clusters(before + strings.Join(in.chars[in.pos:], ""))
	if len(all) > maxInput {
		return
	}
	in.chars, in.pos = all, len(clusters(before))
}

// View draws the field in at most w columns. Focused, it shows where the next
// character goes and keeps that place in view.
func (in *Input) View(t theme.Theme, w int, focused bool) string {
	if len(in.chars) == 0 {
		s := t.Faint.Render(Cut(text.Clean(in.Placeholder), w-1))
		if focused {
			return mark + s
		}
		return s
	}
	if !focused {
		return t.Strong.Render(Cut(text.Clean(in.Value()), w))
	}
	before := text.Clean(strings.Join(in.chars[:in.pos], ""))
	after := text.Clean(strings.Join(in.chars[in.pos:], ""))
	if over := Width(before) - (w - 1); over > 0 {
		whole := before
		for n := over + 1; Width(before) > w-1 && n <= over+3; n++ { // a wide character is not cut in half
			before = ansi.TruncateLeft(whole, n, "…")
		}
	}
	after = Cut(after, w-1-Width(before))
	return render(t, before) + mark + render(t, after)
}

func render(t theme.Theme, s string) string {
	if s == "" {
		return ""
	}
	return t.Strong.Render(s)
}

func clusters(s string) []string {
	var out []string
	for s != "" {
		c, _ := ansi.FirstGraphemeCluster(s, ansi.GraphemeWidth)
		if c == "" {
			break
		}
		out = append(out, c)
		s = s[len(c):]
	}
	return out
}

// printable drops control characters, so that a pasted line break does not act as enter.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
}

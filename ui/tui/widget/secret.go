package widget

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
)

// maxSecret is the longest secret, in bytes: twice a ticket's QR code, for the frame that is copied
// with it.
const maxSecret = 4096

// SecretField is a text field that shows bullets only. What is typed is kept in
// one buffer that never grows, so that no copy is left behind, and is zeroed
// when taken or dropped. The textinput of bubbles keeps runes in slices that it
// copies at every key, and hands them out as a string: neither can be zeroed.
type SecretField struct{ b []byte }

// NewSecretField returns an empty field.
func NewSecretField() *SecretField {
	f := &SecretField{b: make([]byte, 0, maxSecret)}
	hsm.Guard(f.b)
	return f
}

// Len returns the number of characters typed.
func (f *SecretField) Len() int { return utf8.RuneCount(f.b) }

// Update takes a key or a paste. It reports whether the message was its own.
func (f *SecretField) Update(msg tea.Msg) bool {
	switch m := msg.(type) {
	case tea.PasteMsg:
		f.add(strings.TrimRight(m.Content, "\r\n"))
		return true
	case tea.KeyPressMsg:
		switch m.String() {
		case "backspace", "ctrl+h":
			_, n := utf8.DecodeLastRune(f.b)
			clear(f.b[len(f.b)-n:])
			f.b = f.b[:len(f.b)-n]
		case "ctrl+u", "ctrl+w", "alt+backspace": // words of a secret cannot be seen: the whole field is cleared
			f.Zero()
		case "ctrl+a", "ctrl+e", "ctrl+k", "alt+b", "alt+f", "alt+d": // the cursor stays at the end
		default:
			if m.Text == "" {
				return false
			}
			f.add(m.Text)
		}
		return true
	}
	return false
}

func (f *SecretField) add(s string) {
	if len(f.b)+len(s) <= cap(f.b) {
		f.b = append(f.b, s...)
	}
}

// Take returns a copy of the secret, which the caller zeroes, and empties the field.
func (f *SecretField) Take() *hsm.Secret {
	s := hsm.NewSecret(append(make([]byte, 0, len(f.b)), f.b...))
	f.Zero()
	return s
}

// Zero overwrites and empties the field.
func (f *SecretField) Zero() {
	clear(f.b[:cap(f.b)])
	f.b = f.b[:0]
}

// View draws a bullet for each character in at most w columns.
func (f *SecretField) View(t theme.Theme, w int) string {
	n := min(f.Len(), max(w-1, 0))
	if n == 0 {
		return mark
	}
	return t.Strong.Render(strings.Repeat(t.Glyphs.Bullet, n)) + mark
}

// String hides the secret from %v.
func (f *SecretField) String() string { return "[redacted]" }

// GoString hides the secret from %#v.
func (f *SecretField) GoString() string { return "[redacted]" }

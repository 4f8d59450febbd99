package dialog

import (
	"cmp"
	"crypto/subtle"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present/question"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// PIN asks for a secret.
type PIN struct {
	base
	prompt  hsm.PINPrompt
	account account
	keys    keys.Map
	guard   guard
	reply   *reply[*hsm.Secret]
	field   *widget.SecretField
	first   *hsm.Secret // a new secret, typed once
	problem string
}

// Title implements [Dialog].
func (d *PIN) Title() string {
	kind := string(d.prompt.Kind)
	if d.prompt.New {
		kind = "New " + kind
	}
	if d.prompt.Token.Scheme == "" { // a secret that was handed to somebody
		first, n := utf8.DecodeRuneInString(kind)
		return strings.ToUpper(string(first)) + kind[n:]
	}
	return kind + " of " + text.Clean(d.prompt.Token.Name())
}

// Tone implements [Dialog].
func (d *PIN) Tone() Tone {
	if d.last() {
		return Caution
	}
	return Plain
}

func (d *PIN) last() bool { return question.Last(d.prompt) != "" }

// Open implements [Dialog].
func (d *PIN) Open(now time.Time) tea.Cmd {
	d.field = widget.NewSecretField()
	d.guard.open(now)
	return nil
}

// Drop implements [Dialog].
func (d *PIN) Drop() {
	d.field.Zero()
	d.first.Zero()
	d.reply.cancel()
}

// Actions implements [Dialog].
func (d *PIN) Actions() []screen.Action {
	return append([]screen.Action{act(keys.As(d.keys.Enter, "continue")), act(keys.As(d.keys.Back, "cancel"))},
		d.account.actions()...)
}

// Update implements [Dialog].
func (d *PIN) Update(msg tea.Msg, now time.Time) (bool, tea.Cmd) {
	if d.guard.drops(msg, now) {
		return false, nil
	}
	if k, ok := msg.(tea.KeyPressMsg); ok {
		switch {
		case key.Matches(k, d.keys.Back):
			return true, nil
		case key.Matches(k, d.keys.Enter):
			return d.enter(), nil
		case d.account.update(k):
			return false, nil
		}
	}
	if d.field.Update(msg) {
		d.problem = ""
	}
	return false, nil
}

// enter refuses what cannot be the PIN without spending a try.
func (d *PIN) enter() (closed bool) {
	if d.field.Len() == 0 {
		d.problem = "type the " + string(d.prompt.Kind) + " first"
		return false
	}
	s := d.field.Take()
	if err := hsm.CheckPIN(d.prompt.Kind, s, d.prompt.Token.PIN); err != nil {
		s.Zero()
		d.problem = ui.Message(err)
		return false
	}
	if d.prompt.New {
		return d.twice(s)
	}
	d.reply.give(s)
	return true
}

func (d *PIN) twice(s *hsm.Secret) (closed bool) {
	if d.first == nil {
		d.first = s
		return false
	}
	same := subtle.ConstantTimeCompare(d.first.Bytes(), s.Bytes()) == 1
	d.first.Zero()
	d.first = nil
	if !same {
		s.Zero()
		d.problem = question.Differ
		return false
	}
	d.reply.give(s)
	return true
}

// View implements [Dialog].
func (d *PIN) View(f screen.Frame) string {
	t, w := f.Theme, f.Width
	label := string(d.prompt.Kind)
	if d.first != nil {
		label = question.Repeat
	}
	lines := []string{t.Title.Render(label) + "  " + d.field.View(t, w-widget.Width(label)-3)}
	switch {
	case d.problem != "":
		lines = append(lines, widget.Paragraph(t.Bad, t.Glyphs.Failed+" "+d.problem, w)...)
	case d.prompt.Again != "":
		lines = append(lines, widget.Paragraph(t.Bad, t.Glyphs.Failed+" "+text.Clean(d.prompt.Again), w)...)
	}
	if s := d.tries(); s != "" {
		st := t.Muted
		if d.last() || d.prompt.Token.PIN.Low || (d.prompt.Retries > 0 && d.prompt.Retries < 3) {
			st = t.Warn
		}
		lines = append(lines, widget.Paragraph(st, s, w)...)
	}
	if s := rules(d.prompt); s != "" {
		lines = append(lines, widget.Paragraph(t.Muted, s, w)...)
	}
	above := purpose(f, d.prompt.Purpose, d.prompt.Token)
	if d.account.some() {
		above = d.account.view(f, len(lines))
	} else {
		above, lines = append(above, ""), slices.Insert(lines, 1, "")
	}
	return strings.Join(append(above, lines...), "\n")
}

func (d *PIN) tries() string {
	n := d.prompt.TriesToTell()
	switch {
	case d.prompt.New:
		return ""
	case d.last():
		return "! " + question.Last(d.prompt)
	case n > 0:
		return hsm.TriesLeft(n)
	case question.Few(d.prompt) != "":
		return "! " + question.Few(d.prompt)
	}
	return ""
}

func rules(p hsm.PINPrompt) string {
	s := question.Rule(p)
	if p.Kind == hsm.PIVPIN {
		s = cmp.Or(s, "Letters work too, not just digits.") + " It is not the FIDO PIN."
	}
	return strings.TrimSpace(s + " " + question.Default(p))
}

func purpose(f screen.Frame, p hsm.Purpose, t hsm.TokenInfo) []string {
	s := "To use the key"
	if why := question.Why(p); strings.HasPrefix(why, "to ") {
		s = "To " + why[len("to "):]
	} else {
		s += why
	}
	s += "."
	if t.Serial != "" && t.Name() != t.Serial {
		s += " Serial " + text.Clean(t.Serial) + "."
	}
	if p.Notice != "" {
		s = text.Clean(p.Notice) + " " + s
	}
	return widget.Paragraph(f.Theme.Muted, s, f.Width)
}

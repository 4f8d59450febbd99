package dialog

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Form asks for a few values that are not secret.
type Form struct {
	base
	title, intro string
	form         widget.Form
	keys         keys.Map
	submit       func(*widget.Form) tea.Cmd
}

// NewForm returns a dialog that asks for the fields. submit is called when enter
// is pressed; it sets problems and returns nil to go on asking. intro is raw.
func NewForm(k keys.Map, title, intro string, fields []*widget.Field, submit func(*widget.Form) tea.Cmd) *Form {
	return &Form{title: title, intro: intro, form: widget.Form{Fields: fields}, keys: k, submit: submit}
}

// Title implements [Dialog].
func (d *Form) Title() string { return text.Clean(d.title) }

// Actions implements [Dialog].
func (d *Form) Actions() []screen.Action {
	a := []screen.Action{act(keys.As(d.keys.Enter, "go on")), act(keys.As(d.keys.Back, "cancel"))}
	if len(d.form.Fields) > 1 {
		a = append(a, act(d.keys.Next))
	}
	return a
}

// Update implements [Dialog].
func (d *Form) Update(msg tea.Msg, _ time.Time) (bool, tea.Cmd) {
	if k, ok := msg.(tea.KeyPressMsg); ok {
		switch {
		case key.Matches(k, d.keys.Back):
			return true, nil
		case key.Matches(k, d.keys.Enter):
			for _, f := range d.form.Fields {
				f.Problem = ""
			}
			cmd := d.submit(&d.form)
			d.form.FirstProblem()
			return cmd != nil, cmd
		}
	}
	d.form.Update(msg, d.keys)
	return false, nil
}

// View implements [Dialog].
func (d *Form) View(f screen.Frame) string {
	var lines []string
	if d.intro != "" && f.Height >= 10 {
		for _, l := range strings.Split(text.CleanLines(d.intro), "\n") {
			lines = append(lines, widget.Paragraph(f.Theme.Muted, l, f.Width)...)
		}
		lines = append(lines, "")
	}
	rest := strings.TrimRight(d.form.View(f.Theme, f.Width, max(f.Height-len(lines)-2, 1)), " \n")
	return strings.Join(append(lines, rest), "\n")
}

// Width tells how wide the dialog would like to be.
func (d *Form) Width() int { return 84 }

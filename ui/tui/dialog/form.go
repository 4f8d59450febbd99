package dialog

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Form asks for a few values that are not secret.
type Form struct {
	base
	title, intro string
	notices      []string
	form         widget.Form
	keys         keys.Map
	submit       func(*widget.Form) tea.Cmd
	scroll       widget.Scroll
	long         bool // notice and intro do not fit: page up and page down scroll them
}

// NewForm returns a dialog that asks for the fields. submit is called when enter
// is pressed; it sets problems and returns nil to go on asking. intro is raw.
func NewForm(k keys.Map, title, intro string, fields []*widget.Field, submit func(*widget.Form) tea.Cmd) *Form {
	return &Form{title: title, intro: intro, form: widget.Form{Fields: fields}, keys: k, submit: submit}
}

// NewOptions returns a dialog that asks for the options that have labels. submit is called
// when they are read; like that of [NewForm] it may set problems.
func NewOptions(k keys.Map, title, intro string, options []verb.Option, submit func(*widget.Form) tea.Cmd) *Form {
	return NewForm(k, title, intro, widget.Fields(options), func(f *widget.Form) tea.Cmd {
		if !f.Take(options) {
			return nil
		}
		return submit(f)
	})
}

// Noticed has d say first what must not be missed, each raw; "" is nothing.
func (d *Form) Noticed(notices ...string) *Form {
	d.notices = slices.DeleteFunc(notices, func(n string) bool { return n == "" })
	return d
}

// Title implements [Dialog].
func (d *Form) Title() string { return text.Clean(d.title) }

// Actions implements [Dialog].
func (d *Form) Actions() []screen.Action {
	a := []screen.Action{act(keys.As(d.keys.Enter, "go on")), act(keys.As(d.keys.Back, "cancel"))}
	if len(d.form.Fields) > 1 {
		a = append(a, act(d.keys.Next))
	}
	if d.long {
		a = append(a, act(keys.Shown(d.keys.PageDown, "pgdn", "read on")))
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
		case d.long && (k.Code == tea.KeyPgDown || k.Code == tea.KeyPgUp) && d.scroll.Update(k, d.keys):
			return false, nil
		}
	}
	d.form.Update(msg, d.keys)
	return false, nil
}

// View implements [Dialog].
func (d *Form) View(f screen.Frame) string {
	var above []string
	for _, n := range d.notices {
		above = append(above, widget.Paragraph(f.Theme.Warn, f.Theme.Glyphs.Warn+" "+text.Clean(n), f.Width)...)
	}
	if d.intro != "" {
		for _, l := range strings.Split(text.CleanLines(d.intro), "\n") {
			above = append(above, widget.Paragraph(f.Theme.Muted, l, f.Width)...)
		}
	}
	if len(above) == 0 {
		return strings.TrimRight(d.form.View(f.Theme, f.Width, f.Height), " \n")
	}
	// The form comes first, but for a line of what stands above it and a line that says there is more.
	rest := min(d.form.Lines(f.Theme, f.Width), max(f.Height-2, 1))
	room := max(f.Height-rest, 1)
	if d.long = len(above) > room; d.long {
		above = strings.Split(d.scroll.View(f.Theme, above, f.Width, room), "\n")
	}
	if len(above) < room {
		above = append(above, "")
	}
	return strings.Join(append(above, strings.TrimRight(d.form.View(f.Theme, f.Width, rest), " \n")), "\n")
}

// Width tells how wide the dialog would like to be.
func (d *Form) Width() int { return 84 }

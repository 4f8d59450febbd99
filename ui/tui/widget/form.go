package widget

import (
	"cmp"
	"strconv"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Option is one choice of a field. Its texts are raw: a label may be the name of
// something, which what is chosen is found by.
type Option struct {
	Label  string
	Clause string // meaning of the option, in a clause
	Reason string // why it cannot be chosen, "" if it can
}

func (o Option) clean() Option {
	return Option{Label: text.Clean(o.Label), Clause: text.Clean(o.Clause), Reason: text.Clean(o.Reason)}
}

// Field is one line of a form: a choice if it has Options, else a text field.
type Field struct {
	ID      string
	Label   string
	Options []Option
	Index   int // the option chosen
	Input   Input
	Note    string // said while the field has the focus
	Problem string // why the value is wrong, "" if it is right
}

// Fields are the fields of a form for these options.
func Fields(options []verb.Option) []*Field {
	fields := make([]*Field, len(options))
	for i, o := range options {
		f := &Field{ID: o.Flag, Label: o.Label, Note: o.Note}
		if len(o.Choices) == 0 {
			f.Input = NewInput(o.Text(), o.Empty)
		}
		for j, c := range o.Choices {
			f.Options = append(f.Options, Option{Label: cmp.Or(c.Label, c.Value), Clause: c.Clause, Reason: c.Reason})
			if c.Value == o.Text() {
				f.Index = j
			}
		}
		fields[i] = f
	}
	return fields
}

// Take reads the fields that [Fields] made into the options. It says beside each field what is
// wrong with it, and reports whether nothing is.
func (f *Form) Take(options []verb.Option) bool {
	for _, o := range options {
		x := f.Field(o.Flag)
		typed := x.Input.Value()
		if x.Choice() {
			typed = o.Choices[x.Index].Value
		}
		x.Problem = ""
		if err := o.Set(typed); err != nil {
			x.Problem = ui.Message(err)
		} else if o.Required && !o.Given() {
			x.Problem = "it is needed"
		}
	}
	return !f.FirstProblem()
}

// Choice reports whether the field is a choice.
func (f *Field) Choice() bool { return len(f.Options) > 0 }

func (f *Field) move(by int) {
	for i := f.Index + by; i >= 0 && i < len(f.Options); i += by {
		if f.Options[i].Reason == "" {
			f.Index = i
			return
		}
	}
}

// Form is a column of fields of which one has the focus and shows its options
// or its text cursor; the others show their value in one line.
type Form struct {
	Fields []*Field
	Focus  int
	top    int
}

// Focused returns the field that has the focus, or nil.
func (f *Form) Focused() *Field {
	if f.Focus < 0 || f.Focus >= len(f.Fields) {
		return nil
	}
	return f.Fields[f.Focus]
}

// Field returns the field called id, or nil.
func (f *Form) Field(id string) *Field {
	for _, x := range f.Fields {
		if x.ID == id {
			return x
		}
	}
	return nil
}

// Typing reports whether letters are text now.
func (f *Form) Typing() bool {
	x := f.Focused()
	return x != nil && !x.Choice()
}

// FirstProblem moves the focus to the first field with a problem and tells
// whether there is one.
func (f *Form) FirstProblem() bool {
	for i, x := range f.Fields {
		if x.Problem != "" {
			f.Focus = i
			return true
		}
	}
	return false
}

// Update edits the form. It reports whether the message was one of its own.
func (f *Form) Update(msg tea.Msg, m keys.Map) bool {
	x := f.Focused()
	if x == nil {
		return false
	}
	k, isKey := msg.(tea.KeyPressMsg)
	switch msg := msg.(type) {
	case RowMsg:
		f.Focus = max(min(msg.Row, len(f.Fields)-1), 0)
		return true
	case OptionMsg:
		if msg.Option < len(x.Options) && x.Options[msg.Option].Reason == "" {
			x.Index = msg.Option
		}
		return true
	}
	switch {
	case isKey && key.Matches(k, m.Next):
		f.Focus = (f.Focus + 1) % len(f.Fields)
	case isKey && key.Matches(k, m.Prev):
		f.Focus = (f.Focus + len(f.Fields) - 1) % len(f.Fields)
	case x.Choice():
		return isKey && f.choose(x, k, m)
	case isKey && k.String() == "up":
		f.Focus = max(f.Focus-1, 0)
	case isKey && k.String() == "down":
		f.Focus = min(f.Focus+1, len(f.Fields)-1)
	default:
		return x.Input.Update(msg)
	}
	return true
}

func (f *Form) choose(x *Field, k tea.KeyPressMsg, m keys.Map) bool {
	switch {
	case key.Matches(k, m.Up), key.Matches(k, m.Left):
		x.move(-1)
	case key.Matches(k, m.Down), key.Matches(k, m.Right):
		x.move(1)
	case key.Matches(k, m.Home):
		x.Index = -1
		x.move(1)
	case key.Matches(k, m.End):
		x.Index = len(x.Options)
		x.move(-1)
	default:
		return false
	}
	return true
}

// View draws the form in w columns and h lines, the focused field in view.
func (f *Form) View(t theme.Theme, w, h int) string {
	lines, from, to := f.draw(t, w)
	f.top = min(f.top, from)
	f.top = max(f.top, to-h)
	f.top = max(min(f.top, from, len(lines)-h), 0)
	return Block(strings.Join(lines[f.top:min(f.top+h, len(lines))], "\n"), w, h)
}

// Lines is how many lines the whole form takes in w columns.
func (f *Form) Lines(t theme.Theme, w int) int {
	lines, _, _ := f.draw(t, w)
	return len(lines)
}

// draw returns all lines; the focused field's are lines[from:to].
func (f *Form) draw(t theme.Theme, w int) (lines []string, from, to int) {
	label := 0
	for _, x := range f.Fields {
		label = max(label, Width(x.Label))
	}
	for i, x := range f.Fields {
		if i == f.Focus {
			from = len(lines)
			lines = append(lines, x.open(t, label, w)...)
			to = len(lines)
		} else {
			lines = append(lines, Row(i, x.closed(t, label, w)))
			if x.Problem != "" {
				lines = append(lines, x.problem(t, label, w)...)
			}
		}
	}
	return lines, from, to
}

func (x *Field) closed(t theme.Theme, label, w int) string {
	head := "  " + t.Muted.Render(Fit(x.Label, label)) + "  "
	room := w - label - 4
	if !x.Choice() {
		return head + x.Input.View(t, room, false)
	}
	o := x.Options[x.Index].clean()
	s := t.Strong.Render(o.Label)
	if o.Clause != "" {
		s += t.Faint.Render("  " + o.Clause)
	}
	return head + Cut(s, room)
}

func (x *Field) open(t theme.Theme, label, w int) []string {
	head := t.Accent.Render(t.Glyphs.Mark) + " " + t.Title.Render(Fit(x.Label, label)) + "  "
	if !x.Choice() {
		lines := []string{head + x.Input.View(t, w-label-4, true)}
		if x.Problem != "" {
			return append(lines, x.problem(t, label, w)...)
		}
		return append(lines, x.note(t, label, w)...)
	}
	name := 0
	for _, o := range x.Options {
		name = max(name, Width(o.clean().Label))
	}
	lines := make([]string, 0, len(x.Options)+2)
	for i, o := range x.Options {
		o = o.clean()
		lead := strings.Repeat(" ", label+4)
		if i == 0 {
			lead = head
		}
		zone := ZoneOption + strconv.Itoa(i)
		lines = append(lines, lead+Click(zone, Cut(x.option(t, i, o, name), w-label-4)))
		if room := w - label - name - 8; i == x.Index && Width(o.Clause) > room { // said in full where it matters
			lines[len(lines)-1] = lead + Click(zone, Cut(x.option(t, i, Option{Label: o.Label}, name), w-label-4))
			lines = append(lines, indented(Paragraph(t.Text, o.Clause, w-label-6), label+6)...)
		}
	}
	lines = append(lines, x.note(t, label, w)...)
	return lines
}

func (x *Field) option(t theme.Theme, i int, o Option, name int) string {
	switch {
	case o.Reason != "":
		return t.Faint.Render(t.Glyphs.Off + " " + Fit(o.Label, name) + "  " + o.Reason)
	case i == x.Index:
		return t.Accent.Render(t.Glyphs.On+" ") + t.Selected.Render(Fit(o.Label, name)) + t.Text.Render("  "+o.Clause)
	}
	return t.Muted.Render(t.Glyphs.Off+" ") + t.Text.Render(Fit(o.Label, name)) + t.Muted.Render("  "+o.Clause)
}

func (x *Field) note(t theme.Theme, label, w int) []string {
	if x.Note == "" {
		return nil
	}
	return indented(Paragraph(t.Muted, text.Clean(x.Note), w-label-4), label+4)
}

func (x *Field) problem(t theme.Theme, label, w int) []string {
	return indented(Paragraph(t.Bad, t.Glyphs.Failed+" "+text.Clean(x.Problem), w-label-4), label+4)
}

func indented(lines []string, n int) []string {
	for i, l := range lines {
		lines[i] = strings.Repeat(" ", n) + l
	}
	return lines
}

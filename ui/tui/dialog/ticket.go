package dialog

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/qr"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Ticket shows a ticket as a QR code and as text, and how long it is good. It is
// a secret that is made to be handed over: keys copy it, and save it in a file.
type Ticket struct {
	base
	// Says tells what the ticket is for, and why it may not work.
	Says []present.Section
	// Next, if not nil, is shown once this is closed.
	Next *Ticket

	title, text string
	expires     time.Time
	keys        keys.Map
	scroll      widget.Scroll
	size        int // width of the code in columns
}

// NewTicket returns a dialog for a ticket.
func NewTicket(k keys.Map, title, ticket string, expires time.Time) *Ticket {
	d := &Ticket{title: title, text: ticket, expires: expires, keys: k}
	if code, err := qr.Draw(ticket, false); err == nil {
		d.size = widget.Width(strings.SplitN(code, "\n", 2)[0])
	}
	return d
}

// Title implements [Dialog].
func (d *Ticket) Title() string { return text.Clean(d.title) }

// Drop implements [Dialog].
func (d *Ticket) Drop() { d.text = "" }

// Animating implements [Dialog]: the time that is left counts down.
func (d *Ticket) Animating() bool { return true }

// Actions implements [Dialog].
func (d *Ticket) Actions() []screen.Action {
	back := "close; it is not shown again"
	if d.Next != nil {
		back = "the next one; this is not shown again"
	}
	return []screen.Action{act(keys.As(d.keys.Copy, "copy")), act(keySave()), act(keys.As(d.keys.Back, back))}
}

func keySave() key.Binding { return keys.Letter("o", "save") }

func (d *Ticket) save() tea.Cmd {
	ticket := d.text
	file := &widget.Field{ID: "file", Label: "File", Input: widget.NewInput("", "~/ticket.txt"),
		Note: "A new file, which only you can read."}
	return screen.Send(OpenMsg{Dialog: NewForm(d.keys, "Save the ticket", "", []*widget.Field{file},
		func(*widget.Form) tea.Cmd {
			path := screen.Path(file.Input.Value())
			if path == "" {
				file.Problem = "name a file"
				return nil
			}
			if err := screen.WriteNew(path, []byte(ticket+"\n")); err != nil {
				file.Problem = ui.Message(err)
				return nil
			}
			return screen.Send(screen.ToastMsg{Text: "saved in " + path})
		})})
}

// Update implements [Dialog].
func (d *Ticket) Update(msg tea.Msg, _ time.Time) (bool, tea.Cmd) {
	k, ok := msg.(tea.KeyPressMsg)
	if !ok || d.scroll.Update(k, d.keys) {
		return false, nil
	}
	switch {
	case key.Matches(k, d.keys.Copy):
		return false, screen.Send(screen.CopyMsg{What: "ticket", Text: d.text})
	case key.Matches(k, keySave()):
		return false, d.save()
	case !key.Matches(k, d.keys.Back):
		return false, nil
	}
	if d.Next != nil {
		return true, screen.Send(OpenMsg{Dialog: d.Next})
	}
	return true, nil
}

// View implements [Dialog].
func (d *Ticket) View(f screen.Frame) string {
	t := f.Theme
	lines := []string{t.Warn.Render("Valid for " + present.Elapsed(d.expires.Sub(f.Now)) + ", once. " +
		present.TicketTheirs)}
	var facts []present.Section
	for _, s := range d.Says {
		if len(s.Facts) > 0 {
			facts = append(facts, s)
			continue
		}
		// The QR code must not push warnings out of sight.
		lines = append(lines, widget.Sections(t, []present.Section{s}, f.Width)...)
	}
	lines = append(lines, widget.Paragraph(t.Strong, d.text, f.Width)...)
	code, err := qr.Draw(d.text, t.Light)
	height := strings.Count(code, "\n")
	switch {
	case err != nil:
	case d.size <= f.Width && len(lines)+height <= f.Height-2:
		for _, l := range strings.Split(strings.TrimSuffix(code, "\n"), "\n") {
			lines = append(lines, widget.Center(l, f.Width))
		}
	default:
		const around = 8 // borders, keys and what is left of the screen beside them
		lines = append(lines, t.Muted.Render(fmt.Sprintf("The QR code needs a window of %d × %d (columns × rows).",
			d.size+6, len(lines)+height+around)))
	}
	lines = append(append(lines, ""), widget.Paragraph(t.Text, present.TicketYours, f.Width)...)
	lines = append(append(lines, ""), widget.Sections(t, facts, f.Width)...)
	return d.scroll.View(t, lines, f.Width, min(len(lines), max(f.Height-2, 1)))
}

// Width tells how wide the dialog would like to be.
func (d *Ticket) Width() int { return max(d.size, 72) }

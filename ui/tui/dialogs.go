package tui

import (
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/tui/dialog"
)

type dialogs struct {
	stack []opened
	modal atomic.Bool // a dialog is open, for who asks from outside
}

type opened struct {
	id     uint64
	dialog dialog.Dialog
}

func (d *dialogs) any() bool { return len(d.stack) > 0 }

func (d *dialogs) top() dialog.Dialog { return d.stack[len(d.stack)-1].dialog }

func (d *dialogs) set(stack []opened) {
	d.stack = stack
	d.modal.Store(len(stack) > 0)
}

// open puts a dialog on top; its id is 0 if only the person closes it.
func (d *dialogs) open(id uint64, top dialog.Dialog, now time.Time) tea.Cmd {
	d.set(append(d.stack, opened{id, top}))
	return top.Open(now)
}

func (d *dialogs) update(msg tea.Msg, now time.Time) tea.Cmd {
	top := d.top()
	closed, cmd := top.Update(msg, now)
	if closed {
		top.Drop()
		d.set(d.stack[:len(d.stack)-1])
	}
	return cmd
}

func (d *dialogs) tell(id uint64, msg tea.Msg, now time.Time) tea.Cmd {
	for _, o := range d.stack {
		if o.id == id {
			_, cmd := o.dialog.Update(msg, now)
			return cmd
		}
	}
	return nil
}

func (d *dialogs) close(id uint64) {
	for i, o := range d.stack {
		if id != 0 && o.id == id {
			o.dialog.Drop()
			d.set(append(d.stack[:i:i], d.stack[i+1:]...))
			return
		}
	}
}

// drop closes all dialogs when the program ends. any still reports true, so that a later question
// goes to another terminal.
func (d *dialogs) drop() {
	for _, o := range d.stack {
		o.dialog.Drop()
	}
	d.stack = nil
}

package tui

import (
	"context"
	"errors"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/clipboard"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

// job is the operation that runs.
type job struct {
	task.Handle
	operation screen.Operation
	dialog    uint64
}

// operatedMsg says how an operation ended.
type operatedMsg struct {
	id     task.ID
	report screen.Report
	err    error
}

// progressMsg says how far an operation is.
type progressMsg struct {
	id   task.ID
	line string
}

// progressed shows it, also below a dialog that is open above.
func (m *model) progressed(msg progressMsg) tea.Cmd {
	for _, o := range m.dialogs {
		if msg.id == m.job.ID && o.id == m.job.dialog {
			_, cmd := o.dialog.Update(dialog.SayMsg{Line: msg.line}, m.now)
			return cmd
		}
	}
	return nil
}

// mostDone is how many commands of what was done are kept to be looked at.
const mostDone = 20

// operate runs o below a dialog that shows that it runs.
func (m *model) operate(o screen.Operation) tea.Cmd {
	switch {
	case o.Writes && m.readOnly:
		m.toast(strings.ToLower(o.Title)+": "+readOnlyReason, true)
		return nil
	case m.job.Active():
		m.toast("one thing at a time: "+m.job.operation.Title+" is not done yet", true)
		return nil
	}
	h, cmd := m.runner.Start(m.now, func(ctx context.Context, id task.ID) tea.Msg {
		r, err := o.Run(screen.WithProgress(ctx, func(line string) { m.runner.Send(progressMsg{id, line}) }), m.prompter)
		return operatedMsg{id: id, report: r, err: err}
	})
	m.job = job{Handle: h, operation: o, dialog: m.prompter.NextID()}
	return tea.Batch(cmd, m.open(m.job.dialog, dialog.NewWork(m.keys, o.Title, h.Stop)))
}

// operated shows what came of the operation. An error stays until it is dismissed.
func (m *model) operated(msg operatedMsg) tea.Cmd {
	if msg.id != m.job.ID {
		return nil
	}
	o := m.job.operation
	m.closeDialog(m.job.dialog)
	m.job.Done()
	m.job = job{}
	cmds := []tea.Cmd{m.toScreens(screen.ChangedMsg{})}
	if msg.report.Message != nil {
		cmds = append(cmds, screen.Send(msg.report.Message))
	}
	switch r := msg.report; {
	case errors.Is(msg.err, hsm.ErrCancelled), errors.Is(msg.err, context.Canceled):
		m.toast(o.Title+": cancelled", true)
	case msg.err != nil:
		cmds = append(cmds, m.open(0, dialog.NewFailure(m.keys, screen.FailureMsg{Title: o.Title, Err: msg.err})))
	default:
		if o.Command != "" {
			m.done = append(m.done, o.Command)
			m.done = slices.Clone(m.done[max(len(m.done)-mostDone, 0):])
		}
		if r.Said != "" {
			m.toast(r.Said, false)
		}
		if len(r.Lines) > 0 {
			cmds = append(cmds, m.open(0, dialog.NewText(m.keys, screen.TextMsg{Title: r.Title, Lines: r.Lines})))
		}
	}
	return tea.Batch(cmds...)
}

// copy puts text onto the clipboard: by the terminal (OSC 52), which works from
// afar too, and by the desktop's own program where there is one.
func (m *model) copy(c screen.CopyMsg) tea.Cmd {
	m.toast(c.What+" copied", false)
	_, native := m.runner.Start(m.now, func(ctx context.Context, _ task.ID) tea.Msg {
		if err := clipboard.Write(ctx, m.getenv, c.Text); err != nil {
			return screen.ToastMsg{Text: "the desktop's clipboard: " + err.Error(), Warn: true}
		}
		return nil
	})
	return tea.Batch(tea.SetClipboard(c.Text), native)
}

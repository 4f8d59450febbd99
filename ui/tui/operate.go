package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/tui/clipboard"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

type job struct {
	task.Handle
	operation screen.Operation
	dialog    uint64
}

type operatedMsg struct {
	id     task.ID
	report screen.Report
	err    error
}

type progressMsg struct {
	id   task.ID
	line string
}

const mostDone = 20

// operations runs one operation at a time, below a dialog that shows its progress and can cancel
// it.
type operations struct {
	shared
	dialogs  *dialogs
	toasts   *toasts
	readOnly bool

	job  job
	done []string // commands of operations that went well, the latest last
}

func (r *operations) start(o screen.Operation, now time.Time) tea.Cmd {
	switch {
	case o.Writes && r.readOnly:
		r.warn(strings.ToLower(o.Title)+": "+readOnlyReason, now)
		return nil
	case r.job.Active():
		r.warn("one thing at a time: "+r.job.operation.Title+" is not done yet", now)
		return nil
	}
	h, cmd := r.runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		report, err := o.Run(screen.WithProgress(ctx, func(line string) { r.runner.Send(progressMsg{id, line}) }), r.prompter)
		return operatedMsg{id: id, report: report, err: err}
	})
	r.job = job{Handle: h, operation: o, dialog: r.dialogID()}
	return tea.Batch(cmd, r.dialogs.open(r.job.dialog, dialog.NewWork(r.keys, o.Title, h.Stop), now))
}

func (r *operations) warn(line string, now time.Time) {
	r.toasts.add(screen.ToastMsg{Text: line, Warn: true}, now)
}

func (r *operations) progressed(msg progressMsg, now time.Time) tea.Cmd {
	if msg.id != r.job.ID {
		return nil
	}
	return r.dialogs.tell(r.job.dialog, dialog.SayMsg{Line: msg.line}, now)
}

// ended shows the outcome of the operation; ok reports whether msg belongs to the one that runs.
func (r *operations) ended(msg operatedMsg, now time.Time) (cmd tea.Cmd, ok bool) {
	if msg.id != r.job.ID {
		return nil, false
	}
	o := r.job.operation
	r.dialogs.close(r.job.dialog)
	r.job.Done()
	r.job = job{}
	var cmds []tea.Cmd
	if msg.report.Message != nil {
		cmds = append(cmds, screen.Send(msg.report.Message))
	}
	switch report := msg.report; {
	case errors.Is(msg.err, hsm.ErrCancelled), errors.Is(msg.err, context.Canceled):
		r.warn(o.Title+": cancelled", now)
	case msg.err != nil:
		cmds = append(cmds, r.dialogs.open(0, dialog.NewFailure(r.keys, screen.FailureMsg{Title: o.Title, Err: msg.err}),
			now))
	default:
		if o.Command != "" {
			r.done = append(r.done, o.Command)
			r.done = slices.Clone(r.done[max(len(r.done)-mostDone, 0):])
		}
		if report.Said != "" {
			r.toasts.add(screen.ToastMsg{Text: report.Said}, now)
		}
		if len(report.Lines)+len(report.Sections) > 0 {
			text := screen.TextMsg{Title: report.Title, Lines: report.Lines, Sections: report.Sections}
			cmds = append(cmds, r.dialogs.open(0, dialog.NewText(r.keys, text), now))
		}
	}
	return tea.Batch(cmds...), true
}

// copy uses the terminal (OSC 52), which also works over ssh, and the desktop's clipboard program
// if there is one.
func (m *model) copy(c screen.CopyMsg) tea.Cmd {
	m.toasts.add(screen.ToastMsg{Text: c.What + " copied"}, m.now)
	_, native := m.runner.Start(m.now, func(ctx context.Context, _ task.ID) tea.Msg {
		if err := clipboard.Write(ctx, m.getenv, c.Text); err != nil {
			return screen.ToastMsg{Text: "the desktop's clipboard: " + err.Error(), Warn: true}
		}
		return nil
	})
	return tea.Batch(tea.SetClipboard(c.Text), native)
}

package requests

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

// How many events are taken together, and how long the first of them waits:
// ten thousand requests are few messages, one new one is seen at once.
const (
	batchMost = 500
	batchWait = 100 * time.Millisecond
)

func (m *Model) start(now time.Time) tea.Cmd {
	m.job.Cancel()
	m.loaded, m.err = false, nil
	m.stale, m.since = true, now
	kubeContext, which := m.context, m.which
	h, cmd := m.Runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		if which == mine {
			changes, err := own(ctx, m.Quiet, kubeContext)
			return endedMsg{id: id, events: changes, err: err}
		}
		msg := endedMsg{id: id, err: m.follow(ctx, id, kubeContext, request.Filter{Pending: which == pending})}
		if _, unasked := errors.AsType[*cluster.UnaskedError](msg.err); unasked {
			msg.events, _ = own(ctx, m.Quiet, kubeContext) // the error is the same
		}
		return msg
	})
	m.job = h
	return cmd
}

func own(ctx context.Context, s Quiet, kubeContext string) ([]change, error) {
	views, err := s.Own.List(ctx, kubeContext)
	changes := make([]change, 0, len(views))
	for _, v := range views {
		changes = append(changes, change{row: rowOf(v)})
	}
	return changes, err
}

func read(ctx context.Context, s Quiet, kubeContext string, which which) (changes []change, err error) {
	if which == mine {
		return own(ctx, s, kubeContext)
	}
	views, err := s.Requests.List(ctx, kubeContext, request.Filter{Pending: which == pending})
	if err != nil {
		return nil, err
	}
	for v, err := range views {
		if err != nil {
			return nil, err
		}
		changes = append(changes, change{row: rowOf(v)})
	}
	return changes, nil
}

// follow sends the cluster's events in batches and continues after errors. The first page of the
// list shows whether the cluster answers and lets this user list.
func (m *Model) follow(ctx context.Context, id task.ID, kubeContext string, f request.Filter) error {
	page, err := m.Quiet.Requests.List(ctx, kubeContext, request.Filter{})
	if err != nil {
		return err
	}
	for _, err := range page {
		if err != nil {
			return err
		}
		break
	}
	events, err := m.Quiet.Requests.Watch(ctx, kubeContext, f)
	if err != nil {
		return err
	}
	in := make(chan change, batchMost)
	go task.Batch(in, batchMost, batchWait, func(all []change) { m.Runner.Send(eventsMsg{id: id, events: all}) })
	defer close(in)
	in <- change{} // an empty change: the cluster has answered, perhaps with no request
	for e, err := range events {
		if err != nil {
			return err
		}
		in <- change{row: rowOf(e.Request), gone: e.Type == "DELETED"}
	}
	return ctx.Err()
}

// Package store holds the data that screens share: where the person stands, tokens,
// kubeconfig contexts and enrollments begun. The root model owns it; screens read it and ask it to refresh.
package store

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/overview"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

// How often the overview and the tokens are looked at again; the tokens seldom where no list of them is in view.
const (
	OverviewEvery = 2 * time.Second
	TokensEvery   = 2 * time.Second
	TokensSeldom  = 10 * time.Second
)

// Poll is how often it is asked what is due.
const Poll = time.Second

// Sources are where the data comes from.
type Sources struct {
	Overview   func(ctx context.Context, now time.Time) overview.Status
	Tokens     token.Tokens
	Contexts   contexts.Contexts
	Unfinished enrolling.Store
}

// Data is something loaded in the background. An older Value stays while it is
// loaded again.
type Data[T any] struct {
	Value T
	Err   error
	// Loaded is true once an answer, good or bad, has come.
	Loaded bool
	at     time.Time // time of the last answer
	handle task.Handle
}

// Loading reports whether an answer is awaited, and since when.
func (d Data[T]) Loading() (since time.Time, ok bool) { return d.handle.Began, d.handle.Active() }

// Store is the shared data. Its methods are called on one goroutine.
type Store struct {
	Overview   Data[overview.Status]
	Tokens     Data[Tokens]
	Contexts   Data[[]contexts.View]
	Unfinished Data[[]enrolling.Progress]
	// Running is the enrollment that goes on in this program, or that has ended and was not looked
	// at yet; nil if there is none.
	Running *Running

	from   Sources
	runner *task.Runner
}

// Running is an enrollment that goes on in this program.
type Running struct {
	Name string
	// Step is the one that it is at.
	Step enrolling.Step
	// Approval is what to send to who approves, while that is awaited.
	Approval *enrolling.Approval
	// Ended: it is over, and Err is why if it did not succeed.
	Ended bool
	Err   error
}

// Tokens is what the drivers found.
type Tokens struct {
	Views    []hsm.View
	Problems []hsm.Problem
}

// New returns an empty store.
func New(from Sources, r *task.Runner) *Store {
	return &Store{from: from, runner: r}
}

// The answers. Screens see them after the store has taken them in.
type (
	// OverviewMsg says that the overview was made.
	OverviewMsg answer[overview.Status]
	// TokensMsg says that the tokens were read.
	TokensMsg answer[Tokens]
	// ContextsMsg says that the kubeconfig was read.
	ContextsMsg answer[[]contexts.View]
	// UnfinishedMsg says that the enrollment records were read.
	UnfinishedMsg answer[[]enrolling.Progress]
)

type answer[T any] struct {
	id    task.ID
	value T
	err   error
}

func (d *Data[T]) take(a answer[T], now time.Time) bool {
	if a.id == 0 || a.id != d.handle.ID {
		return false // an answer that is not awaited any more
	}
	d.handle.Done()
	d.Err, d.Loaded, d.at = a.err, true, now
	if a.err == nil {
		d.Value = a.value
	}
	return true
}

func load[T any](s *Store, d *Data[T], now time.Time, read func(context.Context) (T, error),
	wrap func(answer[T]) tea.Msg) tea.Cmd {
	d.handle.Cancel()
	h, cmd := s.runner.Start(now, func(ctx context.Context, id task.ID) tea.Msg {
		v, err := read(ctx)
		return wrap(answer[T]{id: id, value: v, err: err})
	})
	d.handle = h
	return cmd
}

// LoadOverview finds out where the person stands.
func (s *Store) LoadOverview(now time.Time) tea.Cmd {
	return load(s, &s.Overview, now, func(ctx context.Context) (overview.Status, error) {
		return s.from.Overview(ctx, now), nil
	}, func(a answer[overview.Status]) tea.Msg { return OverviewMsg(a) })
}

// Status is where the person stands: the overview, with what the tokens that were read last tell.
func (s *Store) Status() overview.Status {
	if !s.Tokens.Loaded || s.Tokens.Err != nil {
		return s.Overview.Value
	}
	return s.Overview.Value.Seen(s.Tokens.Value.Views, s.Tokens.Value.Problems)
}

// OverviewDue reports whether the overview was last made long enough ago.
func (s *Store) OverviewDue(now time.Time) bool { return s.Overview.due(now, OverviewEvery) }

// LoadTokens reads the tokens; an earlier reading that has not ended is cancelled. A
// library that hangs keeps no token from the screen.
func (s *Store) LoadTokens(now time.Time) tea.Cmd {
	return load(s, &s.Tokens, now, func(ctx context.Context) (Tokens, error) {
		v, p, err := s.from.Tokens.ListNow(ctx)
		return Tokens{Views: v, Problems: p}, err
	}, func(a answer[Tokens]) tea.Msg { return TokensMsg(a) })
}

// TokensDue reports whether the tokens, which are read again every so often, are to be read now.
func (s *Store) TokensDue(now time.Time, every time.Duration) bool { return s.Tokens.due(now, every) }

func (d Data[T]) due(now time.Time, every time.Duration) bool {
	_, busy := d.Loading()
	return !busy && now.Sub(d.at) >= every-Poll/2
}

// LoadContexts reads the kubeconfig.
func (s *Store) LoadContexts(now time.Time) tea.Cmd {
	return load(s, &s.Contexts, now, s.from.Contexts.List,
		func(a answer[[]contexts.View]) tea.Msg { return ContextsMsg(a) })
}

// LoadUnfinished reads the records of enrollments that were begun.
func (s *Store) LoadUnfinished(now time.Time) tea.Cmd {
	return load(s, &s.Unfinished, now, s.from.Unfinished.Unfinished,
		func(a answer[[]enrolling.Progress]) tea.Msg { return UnfinishedMsg(a) })
}

// Update takes an answer in. It is fresh if it was awaited, or if msg is not the store's; others need not be passed
// on.
func (s *Store) Update(msg tea.Msg, now time.Time) (fresh bool) {
	switch m := msg.(type) {
	case OverviewMsg:
		return s.Overview.take(answer[overview.Status](m), now)
	case TokensMsg:
		return s.Tokens.take(answer[Tokens](m), now)
	case ContextsMsg:
		return s.Contexts.take(answer[[]contexts.View](m), now)
	case UnfinishedMsg:
		return s.Unfinished.take(answer[[]enrolling.Progress](m), now)
	}
	return true
}

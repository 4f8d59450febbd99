// Package queue knows who can be asked while requests run, and when. [Queue] has one
// question about a program at a time, and one on a terminal, with time between those of two
// programs to print what came of the first; [Responders] are the places where people can be
// asked. It knows programs, terminals and prompts, and nothing of what is asked.
package queue

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// Between the questions of two programs on one terminal: the first one's result is
// to be seen before the second question. A program has printPause to print what it
// was answered, and begins anew with each further request that the same yes or no
// covers; nothing waits longer than printWait for all that.
const (
	printPause = 250 * time.Millisecond
	printWait  = 3 * time.Second
)

// Queue is the prompt queue of an agent. Make one with [New]. It is safe for concurrent
// use.
type Queue struct {
	mu        sync.Mutex
	taken     map[queueKey]chan struct{} // channels that close when the key is free again
	printing  map[queueKey]*printing
	elsewhere map[process.ID]struct{} // programs with a question that is shown on another terminal
	prompters map[Prompter]struct{}
}

// Prompter shows prompts of a program.
type Prompter interface {
	ask.Responder
	// Showing tells whether a prompt is on the program's terminal.
	Showing() bool
	// Share says that other programs may write there by now.
	Share()
}

// queueKey is a terminal or a program.
type queueKey struct {
	terminal uint64
	client   process.ID
}

// printing is a program that was asked about and may print what came of it.
type printing struct {
	client   process.ID
	requests int             // are not answered, or were less than printPause ago
	ctx      context.Context // ends when it has had the time
	end      context.CancelFunc
}

// New returns an empty queue.
func New() *Queue {
	return &Queue{taken: map[queueKey]chan struct{}{}, printing: map[queueKey]*printing{},
		elsewhere: map[process.ID]struct{}{},
		prompters: map[Prompter]struct{}{}}
}

// About waits until no question about the client is open. leave ends the turn. Errors:
// ctx's cause.
func (s *Queue) About(ctx context.Context, client process.ID) (leave func(), err error) {
	return s.take(ctx, queueKey{client: client})
}

// take waits until nobody asks there. leave ends the turn.
func (s *Queue) take(ctx context.Context, at queueKey) (leave func(), err error) {
	for {
		s.mu.Lock()
		taken := s.taken[at]
		if taken == nil {
			break
		}
		s.mu.Unlock()
		select {
		case <-taken:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer s.mu.Unlock()
	mine := make(chan struct{})
	s.taken[at] = mine
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.taken, at)
		close(mine)
	}, nil
}

// Ask waits until the client's question can be put: here, on its terminal, when no
// other one is open and the last one's program has printed its result. leave
// ends the turn; asked tells that the question was seen, and that the client will
// print what becomes of its request, which ends with answered. Errors: ctx's
// cause, [ask.ErrGone].
func (s *Queue) Ask(ctx, answered context.Context, client process.ID, here bool) (leave func(asked bool), err error) {
	at := queueKey{terminal: client.Terminal()}
	switch {
	case !here:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.elsewhere[client] = struct{}{}
		return func(bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.elsewhere, client)
		}, nil
	case at.terminal == 0:
		return func(bool) {}, nil
	}
	free, err := s.take(ctx, at)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	last := s.printing[at]
	s.mu.Unlock()
	if last != nil && last.client != client {
		select {
		case <-last.ctx.Done():
		case <-ctx.Done():
			free()
			return nil, context.Cause(ctx)
		}
	}
	if !client.Alive() {
		free()
		return nil, ask.ErrGone
	}
	return func(asked bool) {
		if asked {
			s.asked(answered, at, client)
		}
		free()
	}, nil
}

func (s *Queue) asked(answered context.Context, at queueKey, client process.ID) {
	p := &printing{client: client}
	p.ctx, p.end = context.WithTimeout(context.Background(), printWait)
	context.AfterFunc(p.ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.printing[at] == p {
			delete(s.printing, at)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printing[at] = p
	s.follow(answered, p)
}

// Covered notes a request that needs no question of its own: "apply -f dir/" prints
// a line for each.
func (s *Queue) Covered(answered context.Context, client process.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.printing {
		if p.client == client {
			s.follow(answered, p)
		}
	}
}

// follow waits for a request's answer to be printed; s.mu is held.
func (s *Queue) follow(answered context.Context, p *printing) {
	p.requests++
	context.AfterFunc(answered, func() {
		time.AfterFunc(printPause, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if p.requests--; p.requests == 0 {
				p.end()
			}
		})
	})
}

// Elsewhere tells whether the client is asked about, but not on its terminal.
func (s *Queue) Elsewhere(client process.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.elsewhere[client]
	return ok
}

// Shows keeps a prompter among those that may show something until the returned
// function is called.
func (s *Queue) Shows(p Prompter) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prompters[p] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.prompters, p)
	}
}

// Showing returns the prompters that show something.
func (s *Queue) Showing() []Prompter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Keys(s.prompters))
	return slices.DeleteFunc(all, func(p Prompter) bool { return !p.Showing() })
}

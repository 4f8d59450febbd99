package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// Person is where a person can be asked.
type Person interface {
	ask.Waiter
	// Ask is an [ask.Func].
	Ask(ctx context.Context, q ask.Question) (ask.Answer, error)
}

// Responder is somebody who can be asked while requests run: whoever sits before
// an open terminal UI, or, for one client alone, before that client.
type Responder struct {
	Person
	// Client is the one client that it is for, zero if it is for all.
	Client process.ID
}

// Responders are those who can be asked now. Make them with [NewResponders]. They are safe
// for concurrent use.
type Responders struct {
	started  time.Time // the agent
	mu       sync.Mutex
	all      []*Responder             // the latest last
	changed  chan struct{}            // channel that a newcomer closes
	expected map[process.ID]time.Time // the time until which an attendant may come
}

// NewResponders returns the responders of an agent that started then: none so far.
func NewResponders(started time.Time) *Responders {
	return &Responders{started: started, changed: make(chan struct{}), expected: map[process.ID]time.Time{}}
}

// Add keeps p among those who can be asked, until remove is called.
func (s *Responders) Add(p *Responder) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, p)
	delete(s.expected, p.Client)
	close(s.changed)
	s.changed = make(chan struct{})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(s.all, func(other *Responder) bool { return other == p })
	}
}

// attendantTimeout is how long an attendant may take to come: it is started
// when a session is handed out, and the client's first request may be faster.
const attendantTimeout = 3 * time.Second

// Expect notes that the client starts an attendant now.
func (s *Responders) Expect(client process.ID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, until := range s.expected {
		if now.After(until) {
			delete(s.expected, c)
		}
	}
	s.expected[client] = now.Add(attendantTimeout)
}

// Attendant returns the client's, or nil.
func (s *Responders) Attendant(client process.ID) *Responder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(client)
}

func (s *Responders) find(client process.ID) *Responder {
	for _, p := range slices.Backward(s.all) {
		if p.Client == client {
			return p
		}
	}
	return nil
}

// ForClient returns who can be asked about the client's requests, in the order
// to try: its attendant, which is awaited if it is on its way, then open UIs.
func (s *Responders) ForClient(ctx context.Context, client process.ID) []*Responder {
	for {
		s.mu.Lock()
		own, until, changed := s.find(client), s.expected[client], s.changed
		all := slices.Clone(s.all)
		s.mu.Unlock()
		left := time.Until(until)
		if !client.Known() {
			own = nil
		} else if own == nil && left > 0 {
			wait := time.NewTimer(left)
			select {
			case <-changed:
				wait.Stop()
				continue
			case <-wait.C:
				continue
			case <-ctx.Done():
				wait.Stop()
			}
		}
		slices.Reverse(all)
		all = slices.DeleteFunc(all, func(p *Responder) bool { return p.Client != process.ID{} })
		if own != nil {
			all = append([]*Responder{own}, all...)
		}
		return all
	}
}

// await returns when an open UI is there, or ctx ends.
func (s *Responders) await(ctx context.Context) {
	for {
		s.mu.Lock()
		there, changed := s.find(process.ID{}) != nil, s.changed
		s.mu.Unlock()
		if there {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Open counts the open UIs.
func (s *Responders) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.all {
		if p.Client == (process.ID{}) {
			n++
		}
	}
	return n
}

// first returns who can be asked for the client: its attendant, else the latest open UI, else nil. Nobody is awaited.
func (s *Responders) first(client process.ID) *Responder {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range s.ForClient(ctx, client) {
		return p
	}
	return nil
}

// Asker asks who can be asked when a request of the client needs a new connection; nil is nobody.
func (s *Responders) Asker(client process.ID) ask.Func {
	if p := s.first(client); p != nil {
		return p.Ask
	}
	return nil
}

// Instead asks a responder what cannot be asked where the client runs. It shows a touch
// only if the client has no terminal. Errors: [hsm.ErrNoTerminal] if there is no responder.
func (s *Responders) Instead(client process.ID) ask.Func {
	hasTerminal := client.Terminal() != 0
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		switch {
		case q.Touch == nil:
			s.soon(ctx)
		case hasTerminal:
			return ask.Answer{}, hsm.ErrNoTerminal
		}
		if p := s.first(client); p != nil {
			return p.Ask(ctx, q)
		}
		return ask.Answer{}, hsm.ErrNoTerminal
	}
}

// startGrace is how long an agent that has just started gives open UIs to find it. They
// look for an agent a few times a second, but the program that started it asks at once.
const startGrace = 500 * time.Millisecond

// soon waits for an open UI where the agent has just started and none has
// come yet.
func (s *Responders) soon(ctx context.Context) {
	grace, cancel := context.WithDeadline(ctx, s.started.Add(startGrace))
	defer cancel()
	s.await(grace)
}

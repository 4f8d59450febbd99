package host

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// responder is somebody who can be asked while requests run: whoever sits before
// an open terminal UI, or, for one client alone, before that client.
type responder struct {
	p      *remotePrompter
	client process.ID // the client; zero for all clients
}

// where is where the person answers.
func (p *responder) where() string {
	if p.client != (process.ID{}) {
		return "where the command runs"
	}
	return ask.InFront(p.p.who)
}

// responders are those who can be asked now.
type responders struct {
	started  time.Time // the agent
	mu       sync.Mutex
	all      []*responder             // the latest last
	changed  chan struct{}            // channel that a newcomer closes
	expected map[process.ID]time.Time // the time until which an attendant may come
}

func newResponders(started time.Time) *responders {
	return &responders{started: started, changed: make(chan struct{}), expected: map[process.ID]time.Time{}}
}

func (s *responders) add(p *responder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, p)
	delete(s.expected, p.client)
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *responders) remove(p *responder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(other *responder) bool { return other == p })
}

// expect notes that the client starts an attendant now.
func (s *responders) expect(client process.ID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, until := range s.expected {
		if now.After(until) {
			delete(s.expected, c)
		}
	}
	s.expected[client] = now.Add(attendantTimeout)
}

// attendant returns the client's, or nil.
func (s *responders) attendant(client process.ID) *responder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(client)
}

func (s *responders) find(client process.ID) *responder {
	for _, p := range slices.Backward(s.all) {
		if p.client == client {
			return p
		}
	}
	return nil
}

// forClient returns who can be asked about the client's requests, in the order
// to try: its attendant, which is awaited if it is on its way, then open UIs.
func (s *responders) forClient(ctx context.Context, client process.ID) []*responder {
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
		all = slices.DeleteFunc(all, func(p *responder) bool { return p.client != process.ID{} })
		if own != nil {
			all = append([]*responder{own}, all...)
		}
		return all
	}
}

// await returns when an open UI is there, or ctx ends.
func (s *responders) await(ctx context.Context) {
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

// fronts counts the open UIs.
func (s *responders) fronts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.all {
		if p.client == (process.ID{}) {
			n++
		}
	}
	return n
}

// offer keeps a person among those who can be asked until the connection ends.
func (s *responders) offer(l *link.Server, who *responder) error {
	s.add(who)
	defer s.remove(who)
	if err := l.Offered(); err != nil {
		return err
	}
	<-l.Context().Done()
	return nil
}

// asker returns who can be asked when a request of the client needs a new
// connection: its attendant, else the latest open UI, else nil.
func (s *responders) asker(client process.ID) ask.Func {
	if p := s.first(client); p != nil {
		return p.p.Ask
	}
	return nil
}

// first is [responders.asker] with where that is.
func (s *responders) first(client process.ID) *responder {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody is awaited
	for _, p := range s.forClient(ctx, client) {
		return p
	}
	return nil
}

// frontGrace is how long after its start an agent has the open UIs find it: they
// look for one a few times a second, and whoever has started it asks at once.
const frontGrace = 500 * time.Millisecond

// soon waits for an open UI where the agent has just started and none has
// come yet.
func (s *responders) soon(ctx context.Context) {
	grace, cancel := context.WithDeadline(ctx, s.started.Add(frontGrace))
	defer cancel()
	s.await(grace)
}

package token

import (
	"slices"
	"sync"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// Questions are the questions about one token that are open. Who waits for the token
// meanwhile, on another terminal, is told of them.
type Questions struct {
	mu      sync.Mutex
	open    []*openQuestion // the latest last
	changed chan struct{}   // channel that every change closes
}

// openQuestion is a question that waits for its answer.
type openQuestion struct {
	ask.Wait
	by ask.Responder // the responder that shows the question; nil if that is not a client of the agent
}

func newQuestions() *Questions { return &Questions{changed: make(chan struct{})} }

// change changes the questions and has those who follow them look again.
func (s *Questions) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// note opens a question, until done is called. Who shows it is to tell shown.
func (s *Questions) note(w ask.Wait) (shown func(ask.Responder), done func()) {
	a := &openQuestion{Wait: w}
	s.change(func() { s.open = append(s.open, a) })
	return func(by ask.Responder) { s.change(func() { a.by, a.Asker = by, by.Process() }) }, func() {
		s.change(func() { s.open = slices.DeleteFunc(s.open, func(o *openQuestion) bool { return o == a }) })
	}
}

// Open returns what is asked now, the latest last.
func (s *Questions) Open() (asked []ask.Wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.open {
		if o.For != ask.ForLibrary {
			asked = append(asked, o.Wait)
		}
	}
	return asked
}

// Tell tells w of the questions that are open elsewhere, until over is called.
func (s *Questions) Tell(w ask.Waiter) (over func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var shown *ask.Wait
		done := func() {}
		defer func() { done() }()
		for {
			now, changed := s.elsewhere(w)
			if now == nil || shown == nil || *now != *shown {
				done()
				if shown, done = now, func() {}; now != nil {
					done = w.ShowWait(*now)
				}
			}
			select {
			case <-changed:
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// elsewhere returns the latest question that w's person does not see, or nil if
// there is none or one is asked there.
func (s *Questions) elsewhere(w ask.Waiter) (latest *ask.Wait, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return nil, s.changed
	}
	who := w.Process()
	here := who.Terminal()
	var library *ask.Wait
	for _, a := range s.open {
		found := a.Wait
		if a.For == ask.ForLibrary { // a library that is slow; a person who is asked goes before it
			library = &found
			continue
		}
		if a.by == ask.Responder(w) || a.Asker == (process.ID{}) && a.Client == who || here != 0 && here == a.Asker.Terminal() {
			return nil, s.changed
		}
		latest = &found
	}
	if latest == nil {
		return library, s.changed
	}
	if !who.Known() { // the system does not tell terminals apart
		return nil, s.changed
	}
	return latest, s.changed
}

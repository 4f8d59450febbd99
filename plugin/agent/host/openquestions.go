package host

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// openQuestions are the questions about one token that are open. Who waits for the token
// meanwhile, on another terminal, is told of them.
type openQuestions struct {
	mu      sync.Mutex
	open    []*openQuestion // the latest last
	changed chan struct{}   // channel that every change closes
}

// openQuestion is a question that waits for its answer.
type openQuestion struct {
	ask.Wait
	by ask.Responder // shows the question; nil if that is not a client of the agent
}

func newOpenQuestions() *openQuestions { return &openQuestions{changed: make(chan struct{})} }

// change changes the questions and has those who follow them look again.
func (s *openQuestions) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// note opens a question, until done is called. Who shows it is to tell shown.
func (s *openQuestions) note(w ask.Wait) (shown func(ask.Responder), done func()) {
	a := &openQuestion{Wait: w}
	s.change(func() { s.open = append(s.open, a) })
	return func(by ask.Responder) { s.change(func() { a.by, a.Asker = by, by.Process() }) }, func() {
		s.change(func() { s.open = slices.DeleteFunc(s.open, func(o *openQuestion) bool { return o == a }) })
	}
}

// tell tells w of the questions that are open elsewhere, until over is called.
func (s *openQuestions) tell(w ask.Waiter) (over func()) {
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
func (s *openQuestions) elsewhere(w ask.Waiter) (latest *ask.Wait, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		return nil, s.changed
	}
	who := w.Process()
	here := who.Terminal()
	for _, a := range s.open {
		if w.Sees(a.Wait, a.by) || a.Asker == (process.ID{}) && a.Client == who || here != 0 && here == a.Asker.Terminal() {
			return nil, s.changed
		}
		found := a.Wait
		latest = &found
	}
	if !who.Known() { // the system does not tell terminals apart
		return nil, s.changed
	}
	return latest, s.changed
}

// readTime is how long a touch line is shown for what it says to count as told.
const readTime = 2 * time.Second

// noting keeps next's questions about the token, which are asked for client, among those
// that are open, and adds to them what a person is to be told. Nil stays nil.
func (h *heldToken) noting(client process.ID, next ask.Func) ask.Func {
	if next == nil {
		return nil
	}
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.Reach {
			return next(ctx, q)
		}
		var over func()
		w := h.waitFor(q)
		w.Client = client
		q.Shown, over = h.questions.note(w)
		if q.Touch != nil {
			return h.notingTouch(ctx, next, q, over)
		}
		defer over()
		told := func() {}
		if q.PIN != nil {
			q, told = h.telling(q)
		}
		a, err := next(ctx, q)
		if err == nil {
			told()
		}
		return a, err
	}
}

func (h *heldToken) notingTouch(ctx context.Context, next ask.Func, q ask.Question, over func()) (ask.Answer, error) {
	q, told := h.telling(q)
	shown := time.Now()
	a, err := next(ctx, q)
	if err != nil { // nothing is shown; the token waits for its touch all the same
		a = ask.Answer{}
	}
	return ask.Answer{Done: sync.OnceFunc(func() {
		over()
		a.Down()
		if time.Since(shown) >= readTime {
			told()
		}
	})}, nil
}

// waitFor is what others wait for while q is open.
func (h *heldToken) waitFor(q ask.Question) ask.Wait {
	switch {
	case q.PIN != nil:
		return ask.Wait{For: ask.ForPIN, Kind: string(q.PIN.Kind), Token: q.PIN.Token.Name()}
	case q.Touch == nil:
		return ask.Wait{For: ask.ForAnswer, Token: cmp.Or(h.uri.Token, h.uri.Serial)}
	case q.Touch.Pad != "":
		return ask.Wait{For: ask.ForPIN, Kind: string(q.Touch.Pad), Token: q.Touch.Token.Name()}
	}
	return ask.Wait{For: ask.ForTouch, Token: q.Touch.Token.Name()}
}

// telling adds to a prompt what its person is to be told; told says that it was.
func (h *heldToken) telling(q ask.Question) (_ ask.Question, told func()) {
	if h.notice == nil {
		return q, func() {}
	}
	notice, told := h.notice()
	return ask.Noticed(q, notice), told
}

// waitDelay is how long a client of the external signer's socket waits before it
// is told why; others know that themselves.
const waitDelay = time.Second

// announcedWaiter is a client that takes words.
type announcedWaiter struct {
	client process.ID
	tell   func(text string)
}

// Sees implements [ask.Waiter]: what is asked for the client itself it hears of from
// [service.Announced], whoever is asked.
func (t announcedWaiter) Sees(w ask.Wait, _ ask.Responder) bool {
	return t.client.Known() && w.Client == t.client
}

// Process implements [ask.Waiter].
func (t announcedWaiter) Process() process.ID { return t.client }

// ShowWait implements [ask.Waiter].
func (t announcedWaiter) ShowWait(w ask.Wait) (done func()) {
	late := time.AfterFunc(waitDelay, func() {
		t.tell(w.Words(consent.CommandOf(w.Client.PID), func(s string) string { return s }))
	})
	return func() { late.Stop() }
}

//go:build unix

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process/child"
)

// How long a worker may take, not counting the time in which a person is asked. After
// that the library counts as hanging, and the process is ended.
const (
	openTimeout  = 30 * time.Second // network HSMs are slow to open
	infoTimeout  = 30 * time.Second
	stateTimeout = 2 * time.Second
	lockTimeout  = 8 * time.Second
	liveTimeout  = 500 * time.Millisecond // a sign of life
	signTimeout  = 90 * time.Second       // time for a touch, or for a PIN typed on the reader
	makeTimeout  = 10 * time.Minute       // a card may search long for the primes of an RSA key
	// patientTimeout is the least of these where a person sees what is waited for.
	patientTimeout = 5 * time.Minute
)

// outcomeTimeout is how long a caller waits for the outcome of a cancelled operation.
const outcomeTimeout = 500 * time.Millisecond

// limit is how long an operation may take that has limit d; 0 is without end.
func (o Options) limit(d time.Duration) time.Duration {
	if d > 0 && o.Patient {
		d = max(d, patientTimeout)
	}
	if d > 0 && o.Longest > 0 {
		d = min(d, o.Longest)
	}
	return d
}

// peer is the caller's view of a worker process. Each call has its own connection.
type peer struct {
	process *workerProcess
	library string // name of the library, for messages
	path    string // path of the library, "" if that is unknown or if it is the smart card service
	o       Options
	pins    atomic.Int32 // calls under way that were given a PIN
	// over is told of the error that the process ended with, or ErrNotSent if it had ended
	// before, and returns what is to be said.
	over func(error) error
}

func (w *peer) connect() (*link.Client, error) {
	if w.process.gone() {
		return nil, w.over(ErrNotSent)
	}
	conn, err := child.SendConn(w.process.control)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return link.NewClient(conn, w.o.Codes), nil
}

// call is what an operation is asked with beside its message.
type call struct {
	handle   int
	token    *hsm.TokenInfo // the one that the handle is for
	prompter hsm.Prompter
	secret   *hsm.Secret // sent after the message
	received func(*hsm.Secret)
	quiet    bool // no message while waiting
}

// call asks for an operation on a connection of its own.
func (w *peer) call(ctx context.Context, op string, q arguments, o call) (results, error) {
	c, err := w.connect()
	if err != nil {
		return results{}, err
	}
	defer c.Close()
	return w.ask(ctx, c, op, q, o)
}

// ask asks on c. A worker that takes longer than the operation's limit is ended, not counting
// what a person takes.
func (w *peer) ask(ctx context.Context, c *link.Client, op string, q arguments, o call) (results, error) {
	limit := w.o.limit(operations[op].limit)
	quiet := o.quiet || operations[op].quiet
	shown := &wait{}
	if show, _ := ctx.Value(waitingKey{}).(func(string) func()); show != nil && !quiet {
		shown.begin(func() (done func()) { return show(w.library) })
	}
	defer shown.end()
	person := &person{wait: shown, token: o.token, pins: &w.pins}
	defer person.over()
	options := link.Options{Limit: limit, Secret: o.secret, Received: o.received, Finishing: w.o.Finishing}
	if p := ask.From(o.prompter); p != nil {
		options.Prompter = person.before(p)
	}
	if w.o.Patient && !quiet {
		options.Outcome, options.Left = outcomeTimeout, func() { w.process.left.Store(true) }
	}
	q.Asks = o.prompter != nil
	var out answer
	r := &request{Header: link.Header{Op: op}, Handle: o.handle, Token: q}
	err := c.Call(ctx, r, &out, options)
	_, lost := errors.AsType[*link.Lost](err)
	switch {
	case errors.Is(err, link.ErrSlow):
		w.process.kill()
		err = fmt.Errorf("%w: the %s did not answer for %s, so its process was ended", hsm.ErrModule, w.library,
			span.Limit(limit))
		err = w.ended(err, person.given(), o.token)
	case ctx.Err() != nil && (lost || errors.Is(err, hsm.ErrCancelled) || errors.Is(err, context.Canceled)):
		err = ctx.Err() // the connection may be closed before the context that Call derived has ended
	case lost:
		err = w.crashed(person.given(), o.token)
	case err != nil:
		err = person.own(err)
	}
	return out.Token, err
}

// crashed says why a connection to the worker broke, which had been given a secret of that kind
// for what it was at with the token.
func (w *peer) crashed(given hsm.PINKind, token *hsm.TokenInfo) error {
	select {
	case <-w.process.exited:
	case <-time.After(time.Second): // the process lives and says nothing
		w.process.kill()
	}
	if w.process.dismissed() || w.process.cmd.ProcessState.Success() && !w.o.Patient {
		return w.o.Dismissed // ended on request, with its token locked
	}
	how := w.process.words.crash()
	if how == "" {
		how = w.process.cmd.ProcessState.String()
	}
	return w.ended(fmt.Errorf("%w: the %s crashed (%s)", hsm.ErrModule, w.library, how), given, token)
}

// ended is the error of a process that crashed or was killed, with the next step. To try again is
// harmless, unless the library was given a PIN: then only the token knows whether that was a try.
func (w *peer) ended(err error, given hsm.PINKind, token *hsm.TokenInfo) error {
	place := hsm.Somewhere
	if token != nil {
		place = token.Place()
	} else if w.path != "" {
		place = hsm.PlaceOfLibrary(w.path)
	}
	mend := "update or repair the library"
	if w.process.forced.Load() {
		mend = place.Again()
	}
	err = w.over(hint.With(err, "run the command again; if that does not help, "+mend))
	if given == "" {
		return err
	}
	state := "`kubehsm token info`"
	if token != nil {
		state = "`kubehsm token info --token " + shell.Quote(token.URI().Identity().String()) + "`"
	}
	return hint.Withf(
		err,
		"see the tries left with %s before you type the %s again, as the library had it when it failed "+
			"and the token may have counted a try; %s",
		state,
		given,
		mend,
	)
}

// person is the prompter that an operation asks. Only the words of an error cross to the worker;
// person gives the caller the original error back.
type person struct {
	wait  *wait
	token *hsm.TokenInfo // the token that is asked about, nil before it has a name

	mu   sync.Mutex
	pins *atomic.Int32
	last error       // the last error of the prompter
	kind hsm.PINKind // see given
}

// give notes that the worker has a secret of that kind; p.mu is held.
func (p *person) give(kind hsm.PINKind) {
	if p.kind == "" {
		p.pins.Add(1)
	}
	p.kind = kind
}

// over is the end of the operation.
func (p *person) over() {
	if p.given() != "" {
		p.pins.Add(-1)
	}
}

// given is the kind of the last secret that was given, or typed on the reader, if its tries are counted.
func (p *person) given() hsm.PINKind {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kind
}

// ours puts what the caller knows of the token in place of what the worker says: a library
// could name another token, to be given its PIN. Nor does a worker know what its token is for.
func (p *person) ours(q ask.Question) ask.Question {
	known := func(said hsm.TokenInfo) hsm.TokenInfo {
		if p.token == nil {
			return said
		}
		t := *p.token
		t.PIN = said.PIN // the tries that are left
		return t
	}
	switch {
	case q.PIN != nil:
		pin := *q.PIN
		pin.Token, pin.Purpose = known(pin.Token), hsm.Purpose{}
		q.PIN = &pin
	case q.Touch != nil:
		touch := *q.Touch
		touch.Token, touch.Purpose = known(touch.Token), hsm.Purpose{}
		q.Touch = &touch
	}
	return q
}

// before asks through next, and hides the waiting message in the meantime.
func (p *person) before(next ask.Func) ask.Func {
	asks := p.wait.around(next)
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		a, err := asks(ctx, p.ours(q))
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case err != nil:
			p.last = err
		case q.PIN != nil && q.PIN.Kind != hsm.ManagementKey:
			p.give(cmp.Or(q.PIN.Kind, hsm.UserPIN))
		case q.Touch != nil && q.Touch.Pad != "":
			p.give(q.Touch.Pad)
		}
		return a, err
	}
}

// own returns the prompter's last error if err has the same words, and err otherwise.
func (p *person) own(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil && err.Error() == p.last.Error() {
		return p.last
	}
	return err
}

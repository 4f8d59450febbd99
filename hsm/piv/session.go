package piv

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/kubehsm/kubehsm/hsm"
)

// Applications (SP 800-73-4 part 1 section 2.2; Yubico).
var (
	aidPIV        = []byte{0xa0, 0x00, 0x00, 0x03, 0x08}
	aidManagement = []byte{0xa0, 0x00, 0x00, 0x05, 0x27, 0x47, 0x11, 0x17}
	aidOTP        = []byte{0xa0, 0x00, 0x00, 0x05, 0x27, 0x20, 0x01, 0x01}
)

// session is one operation's hold on a card: a transaction with the PIV
// application selected. It is used by one goroutine.
type session struct {
	ctx  context.Context
	card card
	// id is what the card is; set once it was identified.
	id identity
	// phase says whether the operation may still be given up.
	phase *atomic.Int32
	// line takes down what tells of a touch; whoever gives up does, too.
	line *atomic.Pointer[func()]
	// verified and managed: PIN or management key count as proved on the card.
	verified, managed bool
}

// The phases of an operation.
const (
	running   = iota
	committed // it is finished, whatever becomes of the caller's context
	givenUp   // the caller has left
)

// commit begins what must not be left half-way: from here on the caller waits
// for the end. It fails if the caller has left already.
func (s *session) commit() error {
	if !s.phase.CompareAndSwap(running, committed) && s.phase.Load() != committed {
		return s.ctx.Err()
	}
	s.ctx = context.WithoutCancel(s.ctx)
	return nil
}

// send sends one command, unless the operation was given up.
func (s *session) send(c command) ([]byte, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	return s.sendAnyway(c)
}

// sendAnyway is send for what must be done also when the operation was given up.
func (s *session) sendAnyway(c command) ([]byte, error) { return exchange(s.card.transmit, c) }

func (s *session) selectApp(aid []byte) error {
	_, err := s.sendAnyway(command{ins: insSelect, p1: 0x04, data: aid})
	return err
}

// elsewhere runs f with another application selected, then PIV again. What
// was proved to the card is gone after it.
func (s *session) elsewhere(aid []byte, f func() error) error {
	if err := s.selectApp(aid); err != nil {
		return err // PIV stays selected
	}
	s.verified, s.managed = false, false
	return errors.Join(f(), s.selectApp(aidPIV))
}

// end makes the card forget what was proved to it, and lets it go. Ways to
// forget, the mildest first: the PIN alone (SP 800-73-4 part 2 section 3.2.1, P1 =
// FF), a change of application, a reset, which other programs notice.
func (s *session) end() error {
	return s.card.end(!s.forget())
}

func (s *session) forget() bool {
	if !s.verified && !s.managed {
		return true
	}
	if !s.managed {
		if _, err := s.sendAnyway(command{ins: insVerify, p1: 0xff, p2: refPIN}); err == nil && !s.isVerified() {
			s.verified = false
			return true
		}
	}
	for _, aid := range [][]byte{aidManagement, aidOTP} {
		if s.elsewhere(aid, func() error { return nil }) == nil && !s.isVerified() {
			return true
		}
	}
	return false
}

// isVerified asks the card whether the PIN counts as verified. A card that
// does not answer clearly counts as one where it is.
func (s *session) isVerified() bool {
	_, err := s.sendAnyway(command{ins: insVerify, p2: refPIN})
	_, counted := triesLeft(err)
	return !counted
}

// open connects to the card in reader r and selects PIV.
func (d *Driver) open(ctx context.Context, r reader) (*session, error) {
	switch {
	case !r.present:
		return nil, errNoCard(r.name)
	case r.mute:
		return nil, errMute(r.name)
	}
	c, err := d.system.connect(ctx, r.name, d.patience)
	var held *hsm.BusyError
	if errors.As(err, &held) && d.busy != nil && d.busy(ctx, held) {
		c, err = d.system.connect(ctx, r.name, d.patience)
	}
	if err != nil {
		return nil, err
	}
	s := &session{ctx: ctx, card: c}
	if err := s.selectApp(aidPIV); err != nil {
		var sw status
		if errors.As(err, &sw) {
			err = errForeign(r.name, r.atr)
		}
		_ = c.end(false) // the first error says what matters
		return nil, err
	}
	return s, nil
}

// operate runs f on the card in reader r. When ctx ends it returns as soon as
// nothing is shown of a touch any more, unless f has committed; the card is let go
// as soon as it answers, and until then further operations on the reader wait.
func operate[T any](ctx context.Context, d *Driver, r reader, f func(*session) (T, error)) (T, error) {
	var none T
	turn := d.turn(r.name)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	phase, line := new(atomic.Int32), new(atomic.Pointer[func()])
	go func() {
		defer func() { <-turn }()
		var res result
		s, err := d.open(ctx, r)
		if err != nil {
			res.err = err
		} else {
			s.phase, s.line = phase, line
			res.value, res.err = f(s)
			// A card that was pulled out forgets by itself.
			if err := s.end(); err != nil && res.err == nil && !errors.Is(err, hsm.ErrRemoved) {
				res.err = err
			}
		}
		done <- res
	}()
	select {
	case res := <-done:
		return res.value, res.err
	case <-ctx.Done():
		if phase.CompareAndSwap(running, givenUp) {
			if down := line.Load(); down != nil {
				(*down)() // before anything is said of the end
			}
			return none, ctx.Err()
		}
		defer d.finish.Begin()()
		res := <-done
		return res.value, res.err
	}
}

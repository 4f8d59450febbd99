//go:build cgo || windows

package pcsc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebfe/scard"

	"github.com/kubehsm/kubehsm/hsm"
)

// service is the system's PC/SC service. It keeps no context: one that outlives a
// restart of the service is worthless, and a new one costs little.
type service struct {
	mu sync.Mutex
	// asking guards every question for a reader's state: the binding keeps a
	// reader's name alive for one such call at a time.
	asking sync.Mutex
	// stuck are the readers whose card was given up waiting for; the channel is
	// closed when the wait has ended after all.
	stuck map[string]chan struct{}
}

// New returns the system's PC/SC service. It touches nothing until it is used.
func New() System { return &service{stuck: map[string]chan struct{}{}} }

// pollBusy is the pause between two tries to get hold of a card.
const pollBusy = 50 * time.Millisecond

// ask reads the state of the moment.
func (p *service) ask(ctx *scard.Context, states []scard.ReaderState) error {
	p.asking.Lock()
	defer p.asking.Unlock()
	err := ctx.GetStatusChange(states, 0)
	if errors.Is(err, scard.ErrTimeout) {
		return nil
	}
	return err
}

func (p *service) Readers() ([]Reader, error) {
	ctx, err := scard.EstablishContext()
	if err != nil {
		return nil, serviceError(err)
	}
	defer func() { _ = ctx.Release() }() // the service may have dropped the context already
	names, err := ctx.ListReaders()
	if errors.Is(err, scard.ErrNoReadersAvailable) || err == nil && len(names) == 0 {
		return nil, noReader()
	}
	if err != nil {
		return nil, serviceError(err)
	}
	states := make([]scard.ReaderState, len(names))
	for i, n := range names {
		states[i].Reader = n
	}
	if err := p.ask(ctx, states); err != nil {
		if errors.Is(err, scard.ErrUnknownReader) { // gone since it was listed
			return nil, noReader()
		}
		return nil, serviceError(err)
	}
	out := make([]Reader, len(names))
	for i, s := range states {
		out[i] = Reader{
			Name: s.Reader, ATR: s.Atr, Events: uint32(s.EventState) >> 16,
			Present: s.EventState&scard.StatePresent != 0,
			Mute:    s.EventState&scard.StateMute != 0,
		}
	}
	return out, nil
}

// held is a card in a transaction.
type held struct {
	service *service
	ctx     *scard.Context
	card    *scard.Card
	name    string
}

// Connect implements [System]. It waits for other programs as PC/SC does: without end, deaf to
// cancellation, in SCardConnect as in SCardBeginTransaction. A wait that takes too
// long is therefore left to itself (it lets the card go as soon as it gets it),
// and until it ends nobody else is sent to wait for the same reader.
func (p *service) Connect(ctx context.Context, name string, patience time.Duration) (Card, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	if stuck := p.waiting(name); stuck != nil {
		select {
		case <-stuck:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			return nil, busy(name)
		}
	}
	type result struct {
		card *held
		err  error
	}
	done := make(chan result)
	abandoned := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := p.hold(name, abandoned)
		select {
		case done <- result{c, err}:
		case <-abandoned:
			if c != nil {
				_ = c.End(false) // an error has nobody left to be told
			}
		}
	}()
	var err error
	select {
	case res := <-done:
		if res.err != nil {
			return nil, cardError(name, res.err)
		}
		return res.card, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = busy(name)
	}
	p.abandon(name, ended)
	close(abandoned)
	return nil, err
}

func (p *service) waiting(name string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck[name]
}

// abandon notes a wait that goes on until ended is closed.
func (p *service) abandon(name string, ended chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck[name] = ended
	go func() {
		<-ended
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.stuck, name)
	}()
}

// hold connects and begins a transaction, trying again while another program
// has the card for itself, until abandoned is closed.
func (p *service) hold(name string, abandoned <-chan struct{}) (*held, error) {
	ctx, err := scard.EstablishContext()
	if err != nil {
		return nil, err
	}
	for {
		c, err := ctx.Connect(name, scard.ShareShared, scard.ProtocolAny)
		if err == nil {
			h := &held{service: p, ctx: ctx, card: c, name: name}
			if err := h.begin(); err != nil {
				return nil, errors.Join(err, h.release(scard.LeaveCard))
			}
			return h, nil
		}
		if !errors.Is(err, scard.ErrSharingViolation) {
			return nil, errors.Join(err, ctx.Release())
		}
		select {
		case <-abandoned:
			return nil, errors.Join(err, ctx.Release())
		case <-time.After(pollBusy):
		}
	}
}

// begin begins the transaction. That another program reset the card is its
// right.
func (c *held) begin() error {
	err := c.card.BeginTransaction()
	if errors.Is(err, scard.ErrResetCard) {
		if err = c.card.Reconnect(scard.ShareShared, scard.ProtocolAny, scard.LeaveCard); err == nil {
			err = c.card.BeginTransaction()
		}
	}
	return err
}

func (c *held) Transmit(apdu []byte) ([]byte, error) {
	answer, err := c.card.Transmit(apdu)
	if err != nil {
		return nil, c.lost(err)
	}
	if len(answer) < 2 {
		return nil, c.lost(ErrShortAnswer)
	}
	return answer, nil
}

// removalPatience is how long the service may take to notice that the card
// whose answer failed is gone.
const removalPatience = 2 * time.Second

// lost says what a failed exchange means: was the card taken away?
func (c *held) lost(err error) error {
	for deadline := time.Now().Add(removalPatience); time.Now().Before(deadline); time.Sleep(pollBusy) {
		states := []scard.ReaderState{{Reader: c.name}}
		serr := c.service.ask(c.ctx, states)
		if errors.Is(serr, scard.ErrUnknownReader) || errors.Is(serr, scard.ErrReaderUnavailable) ||
			serr == nil && states[0].EventState&scard.StatePresent == 0 {
			return fmt.Errorf("reader %q: %w", c.name, hsm.ErrRemoved)
		}
		if serr != nil {
			break
		}
	}
	return cardError(c.name, err)
}

func (c *held) End(reset bool) error {
	disposition := scard.LeaveCard
	if reset {
		disposition = scard.ResetCard
	}
	err := c.card.EndTransaction(disposition)
	if derr := c.release(disposition); err == nil {
		err = derr
	}
	if err != nil {
		return cardError(c.name, err)
	}
	return nil
}

func (c *held) release(d scard.Disposition) error {
	return errors.Join(c.card.Disconnect(d), c.ctx.Release())
}

// serviceError words a failure of the PC/SC service itself.
func serviceError(err error) error {
	var code scard.Error
	if !errors.As(err, &code) {
		return fmt.Errorf("smart card service: %w", err)
	}
	switch code {
	case scard.ErrNoService, scard.ErrServiceStopped:
		return noService()
	case scard.ErrSecurityViolation, scard.ErrNoAccess:
		return denied()
	case scard.ErrNoReadersAvailable:
		return noReader()
	}
	return fmt.Errorf("smart card service: %w: %w", hsm.ErrModule, err)
}

// cardError words a failure with the card in the reader.
func cardError(name string, err error) error {
	var code scard.Error
	if !errors.As(err, &code) {
		return fmt.Errorf("reader %q: %w", name, err)
	}
	switch code {
	case scard.ErrSharingViolation:
		return busy(name)
	case scard.ErrNoSmartcard, scard.ErrRemovedCard, scard.ErrUnknownReader, scard.ErrReaderUnavailable:
		return fmt.Errorf("reader %q: %w", name, hsm.ErrRemoved)
	case scard.ErrUnresponsiveCard, scard.ErrUnpoweredCard, scard.ErrProtoMismatch, scard.ErrUnsupportedCard:
		return mute(name)
	case scard.ErrNoService, scard.ErrServiceStopped, scard.ErrSecurityViolation, scard.ErrNoAccess:
		return serviceError(err)
	}
	return fmt.Errorf("reader %q: %w: %w", name, hsm.ErrModule, err)
}

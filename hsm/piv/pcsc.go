//go:build cgo || windows

package piv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ebfe/scard"

	"github.com/kubehsm/kubehsm/hsm"
)

// pcsc is the system's PC/SC service. It keeps no context: one that outlives a
// restart of the service is worthless, and a new one costs little.
type pcsc struct{}

func newSystem() system { return pcsc{} }

// pollBusy is the pause between two tries to get hold of a card.
const pollBusy = 50 * time.Millisecond

func (pcsc) readers() ([]reader, error) {
	ctx, err := scard.EstablishContext()
	if err != nil {
		return nil, serviceError(err)
	}
	defer ctx.Release()
	names, err := ctx.ListReaders()
	if errors.Is(err, scard.ErrNoReadersAvailable) || err == nil && len(names) == 0 {
		return nil, errNoReader()
	}
	if err != nil {
		return nil, serviceError(err)
	}
	states := make([]scard.ReaderState, len(names))
	for i, n := range names {
		states[i].Reader = n
	}
	if err := ctx.GetStatusChange(states, 0); err != nil && !errors.Is(err, scard.ErrTimeout) {
		return nil, serviceError(err)
	}
	out := make([]reader, len(names))
	for i, s := range states {
		out[i] = reader{
			name: s.Reader, atr: s.Atr, events: uint32(s.EventState) >> 16,
			present: s.EventState&scard.StatePresent != 0,
			mute:    s.EventState&scard.StateMute != 0,
		}
	}
	return out, nil
}

// pcscCard is a card in a transaction.
type pcscCard struct {
	ctx  *scard.Context
	card *scard.Card
	name string
}

func (pcsc) connect(ctx context.Context, name string, patience time.Duration) (card, error) {
	sc, err := scard.EstablishContext()
	if err != nil {
		return nil, serviceError(err)
	}
	deadline := time.Now().Add(patience)
	var c *scard.Card
	for {
		c, err = sc.Connect(name, scard.ShareShared, scard.ProtocolAny)
		if !errors.Is(err, scard.ErrSharingViolation) || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			sc.Release()
			return nil, ctx.Err()
		case <-time.After(pollBusy):
		}
	}
	if err != nil {
		sc.Release()
		return nil, cardError(name, err)
	}
	held := &pcscCard{ctx: sc, card: c, name: name}
	return begin(ctx, held, time.Until(deadline))
}

// begin begins the transaction. PC/SC waits for another program's without end
// and cannot be interrupted, so a wait that takes too long is left to itself:
// it lets the card go as soon as it gets it.
func begin(ctx context.Context, c *pcscCard, patience time.Duration) (card, error) {
	began := make(chan error, 1)
	go func() {
		err := c.card.BeginTransaction()
		if errors.Is(err, scard.ErrResetCard) { // another program reset it: that is its right
			if err = c.card.Reconnect(scard.ShareShared, scard.ProtocolAny, scard.LeaveCard); err == nil {
				err = c.card.BeginTransaction()
			}
		}
		began <- err
	}()
	abandon := func() {
		go func() {
			if <-began == nil {
				_ = c.end(false) // nobody is left to be told
				return
			}
			c.release(scard.LeaveCard)
		}()
	}
	select {
	case err := <-began:
		if err != nil {
			c.release(scard.LeaveCard)
			return nil, cardError(c.name, err)
		}
		return c, nil
	case <-ctx.Done():
		abandon()
		return nil, ctx.Err()
	case <-time.After(max(patience, pollBusy)):
		abandon()
		return nil, cardError(c.name, scard.ErrSharingViolation)
	}
}

func (c *pcscCard) transmit(apdu []byte) ([]byte, error) {
	answer, err := c.card.Transmit(apdu)
	if err != nil {
		return nil, c.lost(err)
	}
	if len(answer) < 2 {
		return nil, c.lost(errShortAnswer)
	}
	return answer, nil
}

// removalPatience is how long the service may take to notice that the card
// whose answer failed is gone.
const removalPatience = 2 * time.Second

// lost says what a failed exchange means: was the card taken away?
func (c *pcscCard) lost(err error) error {
	states := []scard.ReaderState{{Reader: c.name}}
	for deadline := time.Now().Add(removalPatience); time.Now().Before(deadline); {
		serr := c.ctx.GetStatusChange(states, time.Until(deadline))
		if errors.Is(serr, scard.ErrUnknownReader) || errors.Is(serr, scard.ErrReaderUnavailable) ||
			serr == nil && states[0].EventState&scard.StatePresent == 0 {
			return fmt.Errorf("reader %q: %w", c.name, hsm.ErrRemoved)
		}
		if serr != nil {
			break
		}
		states[0].CurrentState = states[0].EventState
	}
	return cardError(c.name, err)
}

func (c *pcscCard) end(reset bool) error {
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

func (c *pcscCard) release(d scard.Disposition) error {
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
		return errNoService()
	case scard.ErrSecurityViolation, scard.ErrNoAccess:
		return errDenied()
	case scard.ErrNoReadersAvailable:
		return errNoReader()
	}
	return fmt.Errorf("smart card service: %w: %s", hsm.ErrModule, code)
}

// cardError words a failure with the card in the reader.
func cardError(name string, err error) error {
	var code scard.Error
	if !errors.As(err, &code) {
		return fmt.Errorf("reader %q: %w", name, err)
	}
	switch code {
	case scard.ErrSharingViolation:
		return errBusy(name)
	case scard.ErrNoSmartcard, scard.ErrRemovedCard, scard.ErrUnknownReader, scard.ErrReaderUnavailable:
		return fmt.Errorf("reader %q: %w", name, hsm.ErrRemoved)
	case scard.ErrUnresponsiveCard, scard.ErrUnpoweredCard, scard.ErrProtoMismatch, scard.ErrUnsupportedCard:
		return errMute(name)
	case scard.ErrNoService, scard.ErrServiceStopped, scard.ErrSecurityViolation, scard.ErrNoAccess:
		return serviceError(err)
	}
	return fmt.Errorf("reader %q: %w: %s", name, hsm.ErrModule, code)
}

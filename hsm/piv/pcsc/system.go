package pcsc

import (
	"context"
	"time"
)

// System is PC/SC, or why there is none. Its errors are ready to be shown.
type System interface {
	// Readers lists the readers and what is in them. No reader at all is
	// [ErrNoReader].
	Readers() ([]Reader, error)
	// Connect opens the card in a reader, shared, and begins a transaction.
	// It gives up with [hsm.ErrBusy] after patience.
	Connect(ctx context.Context, reader string, patience time.Duration) (Card, error)
}

// Card is a card within a transaction.
type Card interface {
	// Transmit sends one APDU. It blocks as long as the card works, a wait for
	// a touch included.
	Transmit(apdu []byte) ([]byte, error)
	// End ends transaction and connection; reset makes the card forget all.
	End(reset bool) error
}

// Reader is a reader and its state of the moment.
type Reader struct {
	Name    string
	Present bool
	Mute    bool // a card that does not answer: inserted wrongly, or no smart card
	ATR     []byte
	// Events counts insertions and removals, where the system does.
	Events uint32
}

// Usable says why there is no card to connect to: [ErrNoCard], [ErrMute], or nil.
func (r Reader) Usable() error {
	switch {
	case !r.Present:
		return noCard(r.Name)
	case r.Mute:
		return mute(r.Name)
	}
	return nil
}

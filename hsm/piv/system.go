package piv

import (
	"context"
	"time"
)

// system is PC/SC, or why there is none. Its errors are ready to be shown.
type system interface {
	// readers lists the readers and what is in them. No reader at all is
	// [errNoReader].
	readers() ([]reader, error)
	// connect opens the card in a reader, shared, and begins a transaction.
	// It gives up with [hsm.ErrBusy] after patience.
	connect(ctx context.Context, name string, patience time.Duration) (card, error)
}

// card is a card within a transaction.
type card interface {
	// transmit sends one APDU. It blocks as long as the card works, a wait for
	// a touch included.
	transmit(apdu []byte) ([]byte, error)
	// end ends transaction and connection; reset makes the card forget all.
	end(reset bool) error
}

// reader is a reader and its state of the moment.
type reader struct {
	name    string
	present bool
	mute    bool // a card that does not answer: inserted wrongly, or no smart card
	atr     []byte
	// events counts insertions and removals, where the system does.
	events uint32
}

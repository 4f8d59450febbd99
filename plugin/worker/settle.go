package worker

import (
	"context"
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// How long a card is waited for that does not answer, or is not found, which a reader
// may say of a card that it is not done with; and the pause between two tries.
const (
	settleTimeout = time.Minute
	findTimeout   = time.Second
	settleEvery   = 100 * time.Millisecond
)

// Settle sees to it that the token of that URI is locked, after the process that
// held it was killed: a reader may be busy with what that process had begun. A token
// that has gone is locked.
func Settle[T Token](ctx context.Context, open func(context.Context, hsm.URI) (T, error), u hsm.URI) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	found := time.Now()
	for {
		t, err := open(ctx, u)
		switch {
		case err == nil:
			return errors.Join(t.Lock(), t.Close())
		case ctx.Err() != nil:
			return err
		case errors.Is(err, hsm.ErrBusy):
			found = time.Now()
		case !errors.Is(err, hsm.ErrNoToken) && !errors.Is(err, hsm.ErrRemoved):
			return err
		case time.Since(found) >= findTimeout:
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(settleEvery):
		}
	}
}

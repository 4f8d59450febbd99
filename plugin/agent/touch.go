package agent

import (
	"context"
	"crypto"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// touchTimeout bounds the wait for a touch that no handshake bounds. Most cards
// give up after 15 s themselves.
const touchTimeout = time.Minute

// touchWatch is a prompter that knows whether a touch was awaited when ctx
// ended: some tokens wait for one without end, and whoever waits for the
// signature gives up first.
type touchWatch struct {
	hsm.Prompter
	ctx     context.Context
	awaited atomic.Int32
	shown   atomic.Bool
}

// Touch implements [hsm.Prompter].
func (w *touchWatch) Touch(ctx context.Context, p hsm.TouchPrompt) (done func()) {
	w.shown.Store(true)
	down := w.Prompter.Touch(ctx, p)
	if p.Pad != "" {
		return down
	}
	w.awaited.Add(1)
	return sync.OnceFunc(func() {
		if w.ctx.Err() == nil {
			w.awaited.Add(-1)
		}
		down()
	})
}

// explain tells of the touch, if it was one that nobody made in time.
func (w *touchWatch) explain(err error) error {
	if w.awaited.Load() == 0 || !errors.Is(w.ctx.Err(), context.DeadlineExceeded) || hsm.ErrorCode(err) != "" {
		return err
	}
	return hsm.WithHint(hsm.ErrTouchTimeout, "touch the token while it blinks")
}

// touchedSigner returns when the touch line is gone: who has waited for the signature
// writes to the terminal next.
type touchedSigner struct {
	crypto.Signer
	watch *touchWatch
}

func (s touchedSigner) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	signature, err := s.Signer.Sign(rand, digest, opts)
	if err != nil {
		return nil, s.watch.explain(err)
	}
	if client, ok := s.watch.Prompter.(*remotePrompter); ok && s.watch.shown.Load() {
		client.TakenDown(s.watch.ctx)
	}
	return signature, nil
}

package provider

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

type signer struct {
	*program
	queue   chan struct{}
	signing atomic.Int32 // handshakes that wait for a signature

	mu     sync.Mutex
	failed error
	until  time.Time
}

func (s *signer) certificate(ctx context.Context) ([]*x509.Certificate, error) {
	return run(ctx, s, s.program.certificate)
}

func (s *signer) sign(ctx context.Context, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return run(ctx, s, func(ctx context.Context) ([]byte, error) { return s.program.sign(ctx, digest, opts) })
}

// run runs one signer at a time. After a failure it returns the same error for a while.
func run[T any](ctx context.Context, s *signer, ask func(context.Context) (T, error)) (answer T, err error) {
	select {
	case s.queue <- struct{}{}:
		defer func() { <-s.queue }()
	case <-ctx.Done():
		return answer, fmt.Errorf("waiting for another external signer to end: %w", context.Cause(ctx))
	}
	if err := s.recent(); err != nil {
		return answer, err
	}
	answer, err = ask(ctx)
	if err != nil {
		err = fmt.Errorf("external signer %s: %w", s, err)
	}
	if !errors.Is(err, context.Canceled) { // a cancelled call says nothing about the signer
		s.note(err)
	}
	return answer, err
}

func (s *signer) recent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil && time.Now().Before(s.until) {
		return s.failed
	}
	return nil
}

func (s *signer) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.until = err, time.Now().Add(s.options.CoolDown)
}

//go:build unix

package agent

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// letGo bounds how long a worker tries to lock its token before it ends.
const letGo = 6 * time.Second

// abandonedPatience bounds how long a library may go on with what nobody waits
// for any more. A card gives up its wait for a touch far sooner.
const abandonedPatience = 30 * time.Second

// worker is the child's side: it holds one token, by drivers of its own.
type worker struct {
	tokens   Tokens
	drivers  hsm.Drivers
	patience time.Duration // see abandonedPatience
	hung     func()        // is told that it has passed
	mu       sync.Mutex
	token    Token
}

// ServeWorker is the worker process: it does what the agent that started it asks
// until that closes control, [WorkerControl], or ctx ends; then it locks its
// token. It makes the process non-dumpable. The caller should exit when it
// returns: a library that hangs may still be at it.
func ServeWorker(ctx context.Context, drivers hsm.Drivers, control *os.File) error {
	if err := errors.Join(harden(), lockMemory()); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	debug.SetGCPercent(50) // it is small and idle
	conn, err := unixConn(control)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer conn.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	w := &worker{tokens: InProcess(drivers), drivers: drivers, patience: abandonedPatience, hung: func() { end(errHung) }}
	for {
		c, err := receiveConn(conn)
		if err != nil { // the agent has gone, or wants us to
			break
		}
		go w.serve(ctx, c)
	}
	done := make(chan error, 1)
	go func() { done <- w.close() }()
	select {
	case err := <-done:
		if errors.Is(context.Cause(ctx), errHung) {
			err = errors.Join(errHung, err)
		}
		return err
	case <-time.After(letGo):
		return errors.New("worker: the token could not be locked in time")
	}
}

func (w *worker) close() error {
	var err error
	if t := w.current(); t != nil {
		if err = errors.Join(t.Lock(), t.Close()); errors.Is(err, hsm.ErrRemoved) || errors.Is(err, hsm.ErrNoToken) {
			err = nil // it took its state along
		}
	}
	return errors.Join(err, w.tokens.Close())
}

func (w *worker) current() Token {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.token
}

// serve answers one connection's requests, one after another. Closing it cancels.
func (w *worker) serve(ctx context.Context, c net.Conn) {
	defer c.Close()
	l := newLink(ctx, c)
	defer l.cancel()
	go l.read() // ends when c is closed
	p := newRemotePrompter(l)
	defer p.close()
	var signer crypto.Signer
	var look lookout
	for f := range l.frames {
		var r request
		if f.Decode(&r) != nil || r.Token == nil {
			clear(f.Payload)
			return
		}
		var asker hsm.Prompter
		if r.Token.Asks {
			asker = p
		}
		over := w.watch(l.ctx)
		out, err := look.operate(l.ctx, w.drivers, r)
		if out == nil && err == nil {
			out, err = w.operate(hsm.WithPurpose(l.ctx, r.Purpose), r, asker, &signer)
		}
		over()
		answer := reply{Token: out, OK: true}
		if err != nil {
			answer = reply{Error: toFailure(err)}
		}
		if l.write(answer) != nil {
			return
		}
	}
}

// watch ends the worker if the library goes on for long after ctx, whose end
// should have ended the operation: nobody waits for it who would notice, and the
// next one would only wait as long.
func (w *worker) watch(ctx context.Context) (over func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(w.patience):
			w.hung()
		}
	})
	return func() { stop(); close(done) }
}

func (w *worker) operate(ctx context.Context, r request, p hsm.Prompter, signer *crypto.Signer) (*tokenReply, error) {
	switch r.Op {
	case opTokenOpen:
		return w.open(ctx, r.Token.URI)
	case opTokenAlive:
		return &tokenReply{}, nil
	}
	t := w.current()
	if t == nil {
		return nil, fmt.Errorf("%w: no token is open", wire.ErrFrame)
	}
	switch r.Op {
	case opTokenInfo:
		info, err := t.Info(ctx)
		return &tokenReply{Info: &info}, err
	case opTokenSlot:
		s, err := t.Slot(ctx, r.Token.URI)
		if err != nil {
			return nil, err
		}
		packed, err := packSlot(s)
		return &tokenReply{Slot: packed}, err
	case opTokenUnlock:
		return &tokenReply{}, t.Unlock(ctx, p)
	case opTokenState:
		return &tokenReply{Unlocked: t.Unlocked()}, nil
	case opTokenLock:
		return &tokenReply{}, t.Lock()
	case opTokenRemoved:
		return &tokenReply{}, w.tokens.Removed(ctx, t)
	case opTokenSigner:
		return prepareSigner(ctx, t, *r.Token, p, signer)
	case opTokenSign:
		if *signer == nil {
			return nil, fmt.Errorf("%w: no signer", wire.ErrFrame)
		}
		sig, err := (*signer).Sign(rand.Reader, r.Token.Digest, r.Token.options())
		return &tokenReply{Signature: sig}, err
	}
	return nil, fmt.Errorf("%w: operation %q", wire.ErrFrame, r.Op)
}

func (w *worker) open(ctx context.Context, u hsm.URI) (*tokenReply, error) {
	t, err := w.tokens.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	info, err := t.Info(ctx)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.token != nil {
		return nil, errors.Join(fmt.Errorf("%w: a second token", wire.ErrFrame), t.Close())
	}
	w.token = t
	return &tokenReply{Info: &info}, nil
}

func prepareSigner(ctx context.Context, t Token, r tokenRequest, p hsm.Prompter, signer *crypto.Signer) (*tokenReply, error) {
	var want crypto.PublicKey
	var err error
	if len(r.Want) > 0 {
		if want, err = x509.ParsePKIXPublicKey(r.Want); err != nil {
			return nil, err
		}
	}
	s, err := t.Signer(ctx, r.URI, want, p)
	if err != nil {
		return nil, err
	}
	*signer = s
	public, err := x509.MarshalPKIXPublicKey(s.Public())
	return &tokenReply{Public: public}, err
}

package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/socket"
)

// Server is the end of a client's connection that does what the client asks.
type Server struct {
	conn    net.Conn
	peer    process.ID
	peerErr error // why peer is not known
	codes   Codes
	frames  chan wire.Frame // channel that the end of the client closes
	ctx     context.Context
	cancel  context.CancelFunc
	send    sync.Mutex
}

// errGone is the cause when a client closes its connection, as a terminal UI that shows a
// question and is closed.
var errGone = errors.New("the prompt was closed")

// NewServer serves c, whose errors have codes. The caller closes c after
// [Server.Serve].
func NewServer(ctx context.Context, c net.Conn, codes Codes) *Server {
	s := &Server{conn: c, codes: codes, frames: make(chan wire.Frame, 8)}
	s.peer, s.peerErr = socket.Peer(c)
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Peer is the process that connected, see [socket.Peer].
func (s *Server) Peer() (process.ID, error) { return s.peer, s.peerErr }

// Context ends when the client goes.
func (s *Server) Context() context.Context { return s.ctx }

// Received is a request that has arrived.
type Received struct {
	Header
	frame wire.Frame
}

// Decode reads the whole request. Errors wrap [wire.ErrFrame].
func (r Received) Decode(v any) error { return r.frame.Decode(v) }

// Quick gives the client's first request to answer, and is done if answer answered it, or if none came. Otherwise
// that request is the first one of [Server.Serve]. Quick does not watch whether the client goes meanwhile, which would
// take a second goroutine: it is for answers that wait for nothing.
func (s *Server) Quick(answer func(wire.Frame) bool) (done bool) {
	f, err := wire.ReadFrame(s.conn)
	if err == nil && !answer(f) {
		s.frames <- f
		return false
	}
	s.cancel()
	return true
}

// Serve calls handle with one request after another, until the client goes (nil),
// sends what is no request ([wire.ErrFrame]), or handle returns an error.
func (s *Server) Serve(handle func(Received) error) error {
	defer s.cancel()
	go s.read() // ends when the connection is closed
	for f := range s.frames {
		r := Received{frame: f}
		if err := f.Decode(&r.Header); err != nil {
			clear(f.Payload)
			return err
		}
		if err := handle(r); err != nil {
			return err
		}
	}
	return nil
}

// read passes frames on until the client goes: that cancels what it had asked
// for. A client that sends more than anybody wants is sent away.
func (s *Server) read() {
	defer close(s.frames)
	defer s.cancel()
	for {
		f, err := wire.ReadFrame(s.conn)
		if err != nil {
			return
		}
		select {
		case s.frames <- f:
		default:
			clear(f.Payload)
			return
		}
	}
}

// Answer sends the answer to a request.
func (s *Server) Answer(v any) error {
	return s.put(func() error { return wire.WriteJSON(s.conn, v) })
}

// AnswerSecret sends an answer that is a secret, or the secret that goes before an answer,
// see [Options.Received].
func (s *Server) AnswerSecret(b []byte) error {
	return s.put(func() error { return wire.WriteFrame(s.conn, wire.KindSecret, b) })
}

// Fail answers a request with err.
func (s *Server) Fail(err error) error { return s.event(event{Error: s.codes.Failure(err)}) }

// Offered tells the client that its person can be asked from now on.
func (s *Server) Offered() error { return s.event(event{Offered: true}) }

// Beat gives a sign of life.
func (s *Server) Beat() error { return s.event(event{Beat: true}) }

// Finishing tells a client that understands it that something has begun which must not be
// left half-way, or has ended.
func (s *Server) Finishing(begun bool) error {
	if begun {
		return s.event(event{Finishing: 1})
	}
	return s.event(event{Finishing: -1})
}

// Secret reads the secret that follows a request, see [Options.Secret].
func (s *Server) Secret(ctx context.Context) (*hsm.Secret, error) {
	f, err := s.next(ctx)
	if err != nil {
		return nil, err
	}
	if f.Kind != wire.KindSecret {
		return nil, fmt.Errorf("%w: a secret was announced but not sent", wire.ErrFrame)
	}
	return hsm.NewSecret(f.Payload), nil
}

// BeatEvery gives a sign of life every so often, until stop is called. Nothing comes
// after stop has returned.
func (s *Server) BeatEvery(every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if s.Beat() != nil {
					return
				}
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func (s *Server) event(e event) error { return s.Answer(e) }

// takeTimeout is how long a client may take for a message. What it does not read at
// once the system keeps for it, a few hundred messages: only one that has been
// suspended for long takes none.
const takeTimeout = 10 * time.Second

// put writes a message. A client that takes none is sent away: others may wait
// for what is done for it, and half a message is no message.
func (s *Server) put(write func() error) error {
	s.send.Lock()
	defer s.send.Unlock()
	err := s.conn.SetWriteDeadline(time.Now().Add(takeTimeout))
	if err == nil {
		err = write()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.cancel()
		_ = s.conn.Close() // the reader ends with the connection, and all that the client has asked for
	}
	return err
}

// answer reads one answer, and the secret that follows it if one does.
func (s *Server) answer(ctx context.Context) (answer, *hsm.Secret, error) {
	f, err := s.next(ctx)
	if err != nil {
		return answer{}, nil, err
	}
	var a answer
	if err := f.Decode(&a); err != nil {
		clear(f.Payload)
		return answer{}, nil, err
	}
	if !a.Secret {
		return a, nil, nil
	}
	secret, err := s.Secret(ctx)
	if err != nil {
		return answer{}, nil, err
	}
	return a, secret, nil
}

func (s *Server) next(ctx context.Context) (wire.Frame, error) {
	select {
	case f, ok := <-s.frames:
		if !ok {
			return wire.Frame{}, gone(errGone)
		}
		return f, nil
	case <-ctx.Done():
		if s.ctx.Err() != nil {
			return wire.Frame{}, gone(errGone)
		}
		return wire.Frame{}, ctx.Err()
	}
}

func gone(err error) error { return fmt.Errorf("%w: %w", hsm.ErrCancelled, err) }

package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/consent/body"
)

// Body is what is told of a request's body.
type Body struct {
	consent.Body
	// Account is what it says, see package body.
	Account []string
}

// Bounds of what is held of bodies, until somebody has answered or so that they can be sent again.
const (
	// maxHeld bounds, in bytes, the bodies that are held in all.
	maxHeld = 64 << 20
	// bodyTimeout is how long a client may take to send one.
	bodyTimeout = 30 * time.Second
)

// bodies holds the bodies of requests that a person is asked about.
type bodies struct {
	room *room
	turn chan struct{} // limits parsing to one body at a time
}

func newBodies() *bodies { return &bodies{newRoom(maxHeld), make(chan struct{}, 1)} }

// exchange is a request as it came, and what its answer is written to.
type exchange struct {
	w   http.ResponseWriter
	own *http.Request
	who asker
}

// request is the request to serve. Its body may be replaced, and that of its own may not: net/http looks there whether
// the next bytes of an HTTP/1.1 connection are the rest of this body, or another request.
func (x exchange) request() *http.Request {
	if x.own.ContentLength == 0 {
		return x.own
	}
	return x.own.WithContext(x.own.Context())
}

// heldBody is a request's body that may be read before it is sent on, and that may be sent on
// more than once. Each time it is sent as it came, to the byte.
type heldBody struct {
	exchange
	all     *bodies
	from    io.ReadCloser
	control *http.ResponseController

	mu     sync.Mutex
	more   sync.Cond     // says that kept, end, gone or closed of a sending has changed
	kept   []byte        // beginning of the body
	room   int64         // bytes that kept takes at most
	end    error         // how from has ended, io.EOF if it was whole
	again  bool          // the body may be sent more than once
	filled chan struct{} // channel that the end of fill closes, nil before fill begins
	gone   bool          // the request is over
}

// sending is a heldBody that is sent on once.
type sending struct {
	*heldBody
	at     int // bytes of kept that are sent
	closed bool
}

// hold puts what can be read before into the place of the request's body.
func (a *bodies) hold(x exchange, r *http.Request) *heldBody {
	b := &heldBody{exchange: x, all: a, from: r.Body, control: http.NewResponseController(x.w)}
	b.more.L = &b.mu
	r.Body = &sending{heldBody: b}
	return b
}

// keep gives the request a GetBody, with which it is sent again on a new connection if the API
// server ends the connection before it takes the request (GOAWAY). A directly connected client-go
// sends it again, too. A body that is larger than API servers take, or of unknown length, or for
// which there is no room, is sent once only, unless it was read before.
func (a *bodies) keep(x exchange, r *http.Request) {
	small := 0 < r.ContentLength && r.ContentLength <= body.Limit
	if _, held := r.Body.(*sending); !held && small {
		a.hold(x, r)
	}
	s, held := r.Body.(*sending)
	if !held {
		return
	}
	b := s.heldBody
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil && small {
		if _, ok := a.room.try(x.who, r.ContentLength); ok {
			b.room, b.kept = r.ContentLength, make([]byte, 0, r.ContentLength+1) // fill reads the end beyond the last byte
		}
	}
	if b.room > 0 && (small || b.end != nil) {
		b.again = true
		r.GetBody = func() (io.ReadCloser, error) { return &sending{heldBody: b}, nil }
	}
}

// letGo ends what is held of a request's body, with the request. What was kept is overwritten.
func letGo(r *http.Request) {
	s, ok := r.Body.(*sending)
	if !ok {
		return
	}
	b := s.heldBody
	b.mu.Lock()
	b.gone = true // from now on no Read begins to fill: it would take what is cleared here
	b.more.Broadcast()
	b.mu.Unlock()
	unread(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.kept)
	b.all.room.leave(b.who, b.room)
	b.kept, b.room = nil, 0
}

// restTimeout is how long a client may take for the rest of a body that nobody wants any more. If all
// of it has come, net/http can use the connection again.
const restTimeout = 100 * time.Millisecond

// unread leaves the rest of a request's body unread: a client that sends nothing more is not waited for.
func unread(r *http.Request) {
	s, ok := r.Body.(*sending)
	if !ok {
		return
	}
	s.mu.Lock()
	filled, ended := s.filled, s.end != nil
	s.mu.Unlock()
	if ended {
		return
	}
	deadline := time.Now().Add(restTimeout) // for net/http, which reads the rest if nobody has read any of it
	if filled != nil {
		select {
		case <-filled:
			return
		case <-time.After(restTimeout):
		}
		deadline = time.Unix(1, 0)
	}
	if err := s.control.SetReadDeadline(deadline); err != nil {
		_ = s.from.Close() // Closing ends whatever reads from the body.
	}
	if filled != nil {
		<-filled
	}
}

var errSlow = fmt.Errorf("it takes longer than %s", bodyTimeout)

// bodyError is a body that did not arrive as it was announced.
type bodyError struct {
	reason string // a Denied constant
	code   int
	error
}

// Unwrap returns what went wrong.
func (e *bodyError) Unwrap() error { return e.error }

// tell reads the body, as far as API servers would, and tells of it. It is called once,
// before the body is sent on.
func (b *heldBody) tell(ctx context.Context, what consent.Request) (Body, error) {
	length := b.own.ContentLength
	told := Body{Body: consent.Body{Length: length}}
	switch {
	case what.Protocol != "" || what.Connecting && length < 0:
		told.Account = []string{body.Unread("it is a stream")}
		return told, nil
	case length > body.Limit:
		told.Account = []string{body.Unread("it is larger than 3 MiB")}
		return told, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bodyTimeout, errSlow)
	defer cancel()
	data, err := b.read(ctx)
	if err != nil {
		return Body{}, err
	}
	if len(data) > body.Limit {
		told.Account = []string{body.Unread("it is larger than 3 MiB")}
		return told, nil
	}
	if len(b.own.Trailer) > 0 { // a trailer that was not announced
		return Body{}, &bodyError{DeniedOdd, http.StatusForbidden,
			fmt.Errorf("%w: it has trailers", consent.ErrOdd)}
	}
	sum := sha256.Sum256(data)
	told.Length, told.SHA256 = int64(len(data)), hex.EncodeToString(sum[:])
	select {
	case b.all.turn <- struct{}{}:
		defer func() { <-b.all.turn }()
	case <-ctx.Done():
		return Body{}, tooMany(ctx)
	}
	if len(data) > 0 {
		told.Account = body.Account(what, b.own.Header, data)
	}
	return told, nil
}

// read reads the body up to one byte more than an API server takes.
func (b *heldBody) read(ctx context.Context) ([]byte, error) {
	most := int64(body.Limit) + 1
	if n := b.own.ContentLength; n >= 0 {
		most = n
	}
	if err := b.all.room.take(ctx, b.who, most); err != nil {
		return nil, tooMany(ctx)
	}
	// The client may be slow, or send nothing more.
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		if err := b.control.SetReadDeadline(time.Unix(1, 0)); err != nil {
			_ = b.from.Close() // Closing ends whatever reads from the body.
		}
	})
	data, err := readUpTo(b.from, most, b.own.ContentLength >= 0)
	if !stop() {
		<-ended // the connection is not to be touched once the request is over
		err = context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end = err
	if b.gone || err != nil {
		clear(data)
		data = data[:0]
	} else if b.own.ContentLength >= 0 || int64(len(data)) < most {
		b.end = io.EOF
	}
	b.kept, b.room = data, int64(len(data))
	b.all.room.leave(b.who, most-b.room)
	if err != nil {
		return nil, &bodyError{DeniedBody, http.StatusBadRequest,
			fmt.Errorf("the request's body did not arrive: %w", err)}
	}
	return data, nil
}

// readUpTo reads r to its end, at most so many bytes of it. Where the length is known the
// end is awaited too, and with it what comes after the body.
func readUpTo(r io.Reader, most int64, known bool) ([]byte, error) {
	size := int64(firstRoom)
	if known {
		size = most + 1
	}
	data := make([]byte, 0, size)
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return data, err
		case int64(len(data)) >= most && !known:
			return data, nil
		case len(data) == cap(data):
			more := append(make([]byte, 0, min(2*int64(cap(data)), most)), data...)
			clear(data) // A body may hold a secret.
			data = more
		}
	}
}

// firstRoom is the room for a body of unknown length at first.
const firstRoom = 32 << 10

// Read implements [io.Reader]: first what is kept.
func (s *sending) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed || s.gone:
			return 0, http.ErrBodyReadAfterClose
		case s.at < len(s.kept):
			n := copy(p, s.kept[s.at:])
			s.at += n
			return n, nil
		case s.end != nil:
			return 0, s.end
		case !s.again:
			return s.once(p)
		case s.filled == nil:
			s.filled = make(chan struct{})
			go s.fill()
		}
		s.more.Wait()
	}
}

// once reads what is not kept. s.mu is held before and after.
func (s *sending) once(p []byte) (int, error) {
	s.mu.Unlock()
	n, err := s.from.Read(p)
	s.mu.Lock()
	s.end = err
	return n, err
}

// fill keeps the rest of the body. It waits for the client in place of Read, so that a Read can end before the client
// sends more: the API server may have answered by then, or the connection to it may have ended.
func (b *heldBody) fill() {
	defer close(b.filled)
	all := b.kept[:cap(b.kept)] // others read up to len(b.kept)
	for n, end := len(b.kept), error(nil); end == nil; {
		var got int
		got, end = b.from.Read(all[n:])
		n += got
		b.mu.Lock()
		b.kept, b.end = all[:n], end
		b.more.Broadcast()
		b.mu.Unlock()
	}
}

// Close implements [io.Closer]. A body that can be sent again stays open.
func (s *sending) Close() error {
	s.mu.Lock()
	s.closed = true
	s.more.Broadcast()
	again := s.again
	s.mu.Unlock()
	if again {
		return nil
	}
	return s.from.Close()
}

// tooMany says why a body could not be read for others.
func tooMany(ctx context.Context) error {
	return fmt.Errorf("too many bodies of other requests wait for an answer: %w", context.Cause(ctx))
}

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

// Bounds of what is held of bodies until somebody has answered.
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

// heldBody is a request's body that may be read before it is sent on, as it came, to the byte.
type heldBody struct {
	exchange
	all     *bodies
	from    io.ReadCloser
	control *http.ResponseController

	mu   sync.Mutex
	kept []byte // beginning of the body
	at   int    // bytes of kept that are sent
	room int64  // bytes that kept takes at most
	end  error  // how from has ended, io.EOF if it was whole
	gone bool   // nobody wants the rest
}

// hold puts what can be read before into the place of the request's body.
func (a *bodies) hold(x exchange, r *http.Request) *heldBody {
	b := &heldBody{exchange: x, all: a, from: r.Body, control: http.NewResponseController(x.w)}
	r.Body = b
	return b
}

// restTimeout is how long a client may take for the rest of a body that nobody wants any more. If all
// of it has come, net/http can use the connection again.
const restTimeout = 100 * time.Millisecond

// letGo ends what is held of a request's body, with the request. What was kept is overwritten.
func letGo(r *http.Request) {
	b, ok := r.Body.(*heldBody)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endSoon()
	clear(b.kept)
	b.all.room.leave(b.who, b.room)
	b.kept, b.room = nil, 0
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
			_ = b.from.Close() // ends a read of the body that still waits
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
func (b *heldBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.gone:
		return 0, http.ErrBodyReadAfterClose
	case b.at < len(b.kept):
		n := copy(p, b.kept[b.at:])
		b.at += n
		return n, nil
	case b.end != nil:
		return 0, b.end
	}
	b.mu.Unlock()
	n, err := b.from.Read(p)
	b.mu.Lock()
	b.end = err
	return n, err
}

// Close implements [io.Closer].
func (b *heldBody) Close() error {
	b.mu.Lock()
	b.endSoon()
	b.mu.Unlock()
	return b.from.Close()
}

// endSoon has a client that sends nothing more not be waited for. b.mu is held.
func (b *heldBody) endSoon() {
	before := b.gone
	b.gone = true
	if !before && b.end == nil && b.control.SetReadDeadline(time.Now().Add(restTimeout)) != nil {
		_ = b.from.Close() // ends a read of the body that still waits
	}
}

// tooMany says why a body could not be read for others.
func tooMany(ctx context.Context) error {
	return fmt.Errorf("too many bodies of other requests wait for an answer: %w", context.Cause(ctx))
}

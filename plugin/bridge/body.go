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

// heldBody is a request's body that may be read before it is sent on. What was read is
// sent on, byte by byte.
type heldBody struct {
	all     *bodies
	who     asker
	request *http.Request // request as it came
	what    consent.Request
	from    io.ReadCloser
	control *http.ResponseController

	mu     sync.Mutex
	whole  []byte // part that was read, and takes room
	left   []byte // rest of whole that is not sent on yet
	closed bool
}

// hold puts what can be read before into the place of the request's body. Streams stay as
// they are.
func (a *bodies) hold(w http.ResponseWriter, r *http.Request, who asker, what consent.Request) *heldBody {
	b := &heldBody{all: a, who: who, request: r, what: what, from: r.Body, control: http.NewResponseController(w)}
	if !what.Connecting {
		r.Body = b
	}
	return b
}

// letGo ends what is held of a request's body, with the request.
func letGo(r *http.Request) {
	if b, ok := r.Body.(*heldBody); ok {
		_ = b.Close() // the server closes the body itself, too
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
func (b *heldBody) tell(ctx context.Context) (Body, error) {
	length := b.request.ContentLength
	told := Body{Body: consent.Body{Length: length}}
	switch {
	case b.what.Connecting:
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
	if len(b.request.Trailer) > 0 { // a trailer that was not announced
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
		told.Account = body.Account(b.what, b.request.Header, data)
	}
	return told, nil
}

// read reads the body up to one byte more than an API server takes.
func (b *heldBody) read(ctx context.Context) ([]byte, error) {
	most := int64(body.Limit) + 1
	if n := b.request.ContentLength; n >= 0 {
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
	data, err := readUpTo(b.from, most, b.request.ContentLength >= 0)
	if !stop() {
		<-ended // the connection is not to be touched once the request is over
		err = context.Cause(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || err != nil {
		clear(data)
		data = data[:0]
	}
	b.left, b.whole = data, data
	b.all.room.leave(b.who, most-int64(len(data)))
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

// Read implements [io.Reader]: first what was read before.
func (b *heldBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.left) > 0 {
		n := copy(p, b.left)
		b.left = b.left[n:]
		b.mu.Unlock()
		return n, nil
	}
	b.mu.Unlock()
	return b.from.Read(p)
}

// Close implements [io.Closer]. What was held is overwritten.
func (b *heldBody) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		clear(b.whole)
		b.all.room.leave(b.who, int64(len(b.whole)))
		b.left, b.whole = nil, nil
	}
	b.mu.Unlock()
	return b.from.Close()
}

// tooMany says why a body could not be read for others.
func tooMany(ctx context.Context) error {
	return fmt.Errorf("too many bodies of other requests wait for an answer: %w", context.Cause(ctx))
}

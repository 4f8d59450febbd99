package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The kinds of frames.
const (
	KindJSON   = 'J' // a JSON message
	KindSecret = 'S' // raw bytes, overwritten after use
)

// Bounds of a payload in bytes.
const (
	MaxJSON   = 256 << 10
	MaxSecret = 16 << 10
)

// ErrFrame says that the peer does not speak the protocol.
var ErrFrame = errors.New("malformed message on the agent's socket")

// Frame is one message.
type Frame struct {
	Kind    byte
	Payload []byte
}

// WriteFrame writes one frame in one Write. The copy made for it is overwritten.
func WriteFrame(w io.Writer, kind byte, payload []byte) error {
	b := make([]byte, 5+len(payload))
	binary.BigEndian.PutUint32(b, uint32(len(payload)))
	b[4] = kind
	copy(b[5:], payload)
	_, err := w.Write(b)
	if kind == KindSecret {
		clear(b)
	}
	return err
}

// WriteJSON writes v as one frame of kind [KindJSON].
func WriteJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxJSON {
		return fmt.Errorf("%w: %d bytes to send", ErrFrame, len(b))
	}
	return WriteFrame(w, KindJSON, b)
}

// ReadFrame reads one frame, its size checked before memory is taken for it. It
// must be given the connection itself: a buffered reader would keep secrets.
func ReadFrame(r io.Reader) (Frame, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	limit := uint32(MaxJSON)
	switch head[4] {
	case KindJSON:
	case KindSecret:
		limit = MaxSecret
	default:
		return Frame{}, fmt.Errorf("%w: type %#x", ErrFrame, head[4])
	}
	if n > limit {
		return Frame{}, fmt.Errorf("%w: %d bytes", ErrFrame, n)
	}
	f := Frame{Kind: head[4], Payload: make([]byte, n)}
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		clear(f.Payload)
		return Frame{}, err
	}
	return f, nil
}

// MaxSilence is how long an agent that gives signs of life may be without a word.
const MaxSilence = 10 * time.Second

// Conn is a connection to read from.
type Conn interface {
	io.Reader
	SetReadDeadline(t time.Time) error
}

// ReadWithin is [ReadFrame] with a limit for the first byte to come; 0 is none.
// A program that was itself suspended meanwhile finds the frame there, and takes it.
func ReadWithin(c Conn, limit time.Duration) (Frame, error) {
	if limit == 0 {
		return ReadFrame(c)
	}
	var first [1]byte
	var err error
	for _, d := range []time.Duration{limit, time.Second} {
		if err = c.SetReadDeadline(time.Now().Add(d)); err != nil {
			return Frame{}, err
		}
		if _, err = io.ReadFull(c, first[:]); err == nil {
			break
		}
	}
	if err != nil {
		return Frame{}, err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return Frame{}, err
	}
	return ReadFrame(io.MultiReader(bytes.NewReader(first[:]), c))
}

// Decode reads the JSON message. Errors wrap [ErrFrame].
func (f Frame) Decode(v any) error {
	if f.Kind != KindJSON {
		return fmt.Errorf("%w: a secret nobody asked for", ErrFrame)
	}
	if err := json.Unmarshal(f.Payload, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

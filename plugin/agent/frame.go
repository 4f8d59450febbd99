package agent

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Frame types.
const (
	frameJSON   = 'J'
	frameSecret = 'S'
)

// Bounds of a payload in bytes.
const (
	maxJSON   = 256 << 10
	maxSecret = 1 << 10
)

// errFrame says that the peer does not speak the protocol.
var errFrame = errors.New("malformed message on the agent's socket")

type frame struct {
	kind    byte
	payload []byte
}

// writeFrame writes one frame in one Write. The copy made for it is overwritten.
func writeFrame(w io.Writer, kind byte, payload []byte) error {
	b := make([]byte, 5+len(payload))
	binary.BigEndian.PutUint32(b, uint32(len(payload)))
	b[4] = kind
	copy(b[5:], payload)
	_, err := w.Write(b)
	if kind == frameSecret {
		clear(b)
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxJSON {
		return fmt.Errorf("%w: %d bytes to send", errFrame, len(b))
	}
	return writeFrame(w, frameJSON, b)
}

// readFrame reads one frame, its size checked before memory is taken for it. It
// must be given the connection itself: a buffered reader would keep secrets.
func readFrame(r io.Reader) (frame, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	limit := uint32(maxJSON)
	switch head[4] {
	case frameJSON:
	case frameSecret:
		limit = maxSecret
	default:
		return frame{}, fmt.Errorf("%w: type %#x", errFrame, head[4])
	}
	if n > limit {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	f := frame{kind: head[4], payload: make([]byte, n)}
	if _, err := io.ReadFull(r, f.payload); err != nil {
		clear(f.payload)
		return frame{}, err
	}
	return f, nil
}

func (f frame) decode(v any) error {
	if f.kind != frameJSON {
		return fmt.Errorf("%w: a secret nobody asked for", errFrame)
	}
	if err := json.Unmarshal(f.payload, v); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

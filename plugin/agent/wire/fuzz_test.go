package wire

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

// FuzzReadFrame: what is read is a frame that is written the same, nothing is read beyond
// it, and no length that is only claimed takes memory beyond the bounds.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02J{}rest"))
	f.Add([]byte("\x00\x00\x00\x03Sabc"))
	f.Add([]byte("\xff\xff\xff\xffJ"))
	f.Add([]byte("\x00\x04\x00\x01J"))
	f.Add([]byte("\x00\x00\x40\x01S"))
	f.Add([]byte("\x00\x00\x00\x00X"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		frame, err := ReadFrame(r)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 2*MaxJSON {
			t.Errorf("%d bytes of memory for %d", used, len(data))
		}
		if err != nil {
			if !errors.Is(err, ErrFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || frame.Payload != nil {
				t.Errorf("%v with %q", err, frame.Payload)
			}
			return
		}
		var again bytes.Buffer
		must.OK(t, WriteFrame(&again, frame.Kind, frame.Payload))
		if n := len(data) - r.Len(); !bytes.Equal(again.Bytes(), data[:n]) {
			t.Errorf("%q of %q is written %q", data[:n], data, again.Bytes())
		}
		var v any
		if err := frame.Decode(&v); err != nil && !errors.Is(err, ErrFrame) {
			t.Errorf("unnamed error %v", err)
		}
	})
}

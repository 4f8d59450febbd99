package link

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestClientThatTakesNothing: a terminal UI that is suspended, say, holds up
// nobody who shows something there.
func TestClientThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		s := NewServer(t.Context(), ours, nil)
		go s.read()
		written := make(chan error, 1)
		go func() { written <- s.Beat() }()
		select {
		case err := <-written:
			if err == nil {
				t.Error("it was written")
			}
		case <-time.After(time.Hour):
			t.Error("it is written for an hour")
			if err := ours.Close(); err != nil {
				t.Error(err)
			}
		}
		<-s.ctx.Done()
		if _, more := <-s.frames; more {
			t.Error("it is still heard")
		}
	})
}

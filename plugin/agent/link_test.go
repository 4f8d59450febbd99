package agent

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
		l := newLink(t.Context(), ours)
		go l.read()
		written := make(chan error, 1)
		go func() { written <- l.write(reply{Beat: true}) }()
		select {
		case err := <-written:
			if err == nil {
				t.Error("it was written")
			}
		case <-time.After(time.Hour):
			t.Error("it is written for an hour")
			check(t, ours.Close())
		}
		<-l.ctx.Done()
		if _, more := <-l.frames; more {
			t.Error("it is still heard")
		}
	})
}

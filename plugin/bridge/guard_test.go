package bridge

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/kubehsm/kubehsm/test/poll"
)

// TestStrangersAreBounded: connections of other users, which cost nothing but
// their opening, take no more than a few descriptors.
func TestStrangersAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	ours := make(chan bool, 1) // whether the next one is
	g := newGuard(inner, func(net.Conn) error {
		if <-ours {
			return nil
		}
		return errors.New("another user's")
	})
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := g.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func(our bool) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp4", inner.Addr().String())
		check(t, err)
		t.Cleanup(func() { _ = c.Close() })
		ours <- our
		return c
	}
	var open []net.Conn
	for range maxStrangers {
		dial(false)
		open = append(open, <-accepted)
	}
	for range 3 {
		if n, err := dial(false).Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("one more is served: %d, %v", n, err)
		}
	}
	dial(true)
	if _, stranger := (<-accepted).(*strangerConn); stranger {
		t.Error("ours counts as a stranger's")
	}
	check(t, open[0].Close())
	_ = open[0].Close() // counts once
	dial(false)
	<-accepted
	if n := len(g.strangers); n != maxStrangers {
		t.Errorf("%d strangers", n)
	}
	check(t, g.Close())
	poll.Until(t, "it ends", func() bool { _, more := <-accepted; return !more })
}

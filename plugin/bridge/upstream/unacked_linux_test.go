package upstream

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
)

// TestUnacked: the system ends a connection whose peer takes nothing.
func TestUnacked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	d := net.Dialer{Control: endUnacked(100 * time.Millisecond)}
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	check(t, err)
	defer c.Close()
	check(t, c.SetDeadline(time.Now().Add(time.Minute)))
	for err == nil {
		_, err = c.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}
}

// TestLaneUnacked: a lane is such a connection. A tunnel is not: it outlives a network that is away
// for minutes.
func TestLaneUnacked(t *testing.T) {
	up := withLane(t, newRig(t, bridgetest.Options{}))
	of := func(c net.Conn) (ms int) {
		raw, err := c.(syscall.Conn).SyscallConn()
		check(t, err)
		failed := raw.Control(func(fd uintptr) {
			ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		})
		check(t, errors.Join(failed, err))
		return ms
	}
	if got := of(up.transport.lanes.idle[0].conn.NetConn()); got != 40_000 {
		t.Errorf("a lane ends after %d ms", got)
	}
	tunnel, err := up.conns.dial(t.Context(), up.o.Signer, false, "http/1.1")
	check(t, err)
	defer tunnel.Close()
	if got := of(tunnel.NetConn()); got != 0 {
		t.Errorf("a tunnel ends after %d ms", got)
	}
}

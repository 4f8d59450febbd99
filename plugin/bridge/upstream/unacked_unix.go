//go:build linux || darwin

package upstream

import (
	"errors"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endUnacked is a [net.Dialer.Control] that has the system end a connection whose peer acknowledges
// nothing for so long of what was sent.
func endUnacked(after time.Duration) func(network, address string, c syscall.RawConn) error {
	option, value := 0x12, after.Milliseconds() // TCP_USER_TIMEOUT, tcp(7)
	if runtime.GOOS == "darwin" {
		option, value = 0x80, int64(after.Seconds()) // TCP_RXT_CONNDROPTIME, netinet/tcp.h
	}
	return func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, int(value))
		})
		return errors.Join(failed, err)
	}
}

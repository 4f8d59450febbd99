package vcard

import (
	"net"

	"golang.org/x/sys/unix"
)

// quickACK makes the kernel acknowledge without delay, until the next read.
func quickACK(conn net.Conn) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		// A kernel that refuses is only slower.
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	}
}

//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package prompt

import "golang.org/x/sys/unix"

const (
	ioctlGet      = unix.TIOCGETA
	ioctlSet      = unix.TIOCSETA
	ioctlSetFlush = unix.TIOCSETAF
)

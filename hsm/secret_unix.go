//go:build unix

package hsm

import "golang.org/x/sys/unix"

// keepInRAM keeps the pages of b out of swap (mlock(2)) for the life of the
// process. It is done where the user's limit allows; a page is 4 KiB or so, and
// the usual limit is some MiB.
func keepInRAM(b []byte) {
	if cap(b) > 0 {
		_ = unix.Mlock(b[:cap(b)])
	}
}

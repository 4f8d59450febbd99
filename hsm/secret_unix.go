//go:build unix

package hsm

import "golang.org/x/sys/unix"

// keepInRAM keeps the pages of b, and of its capacity, out of swap (mlock(2)) for the life
// of the process, as far as the user's limit allows. Beyond the limit it does nothing,
// since that must not keep a person from signing in. A page is 4 KiB or so, and the usual
// limit is some MiB.
func keepInRAM(b []byte) {
	if cap(b) > 0 {
		_ = unix.Mlock(b[:cap(b)])
	}
}

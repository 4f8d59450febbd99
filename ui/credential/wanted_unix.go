//go:build unix

package credential

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// whenUnread calls f when nobody can read any more what is written to out: the other end
// of a pipe is closed, or the terminal is.
func whenUnread(out io.Writer, f func()) {
	file, ok := out.(*os.File)
	if !ok {
		return
	}
	set := []unix.PollFd{{Fd: int32(file.Fd())}} // poll(2) tells of errors unasked
	go func() {
		for {
			n, err := unix.Poll(set, -1)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if n > 0 {
				f()
			}
			return
		}
	}()
}

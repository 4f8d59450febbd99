//go:build unix && !linux

package process

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// KeepDescriptors keeps what this process has inherited beyond its streams from
// the processes that it starts: a shell's lock, say, is held for as long as
// anybody has its file open.
func KeepDescriptors() error {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd) // the folder's own is closed by now
		}
	}
	return nil
}

package process

import (
	"errors"

	"golang.org/x/sys/unix"
)

// KeepDescriptors keeps what this process has inherited beyond its streams from
// the processes that it starts (close_range(2)): a shell's lock, say, is held for
// as long as anybody has its file open.
func KeepDescriptors() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return nil // Linux before 5.11: callers that leave descriptors open are rare
	}
	return err
}

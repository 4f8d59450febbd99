package loopback

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// machineID is the hardware's UUID, the registry's IOPlatformUUID, as gethostuuid(2) tells it.
func machineID() []byte {
	id := make([]byte, 16)
	var wait unix.Timespec
	_, _, errno := unix.Syscall(unix.SYS_GETHOSTUUID,
		uintptr(unsafe.Pointer(&id[0])), uintptr(unsafe.Pointer(&wait)), 0)
	if errno != 0 {
		return nil
	}
	return id
}

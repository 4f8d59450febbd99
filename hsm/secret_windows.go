package hsm

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// keepInRAM keeps the pages of b, and of its capacity, out of the page file where the
// system allows it.
func keepInRAM(b []byte) {
	if cap(b) > 0 {
		_ = windows.VirtualLock(uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(cap(b)))
	}
}

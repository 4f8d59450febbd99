// Put into package time of the program under test: its wall clock is off by what
// the file "clock", in the folder above the program's own, says at that moment in
// eight bytes of this machine's order.

package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var faultOffset = faultClock()

// faultClock maps the file, so that all processes see a change at once.
func faultClock() *int64 {
	buf := make([]byte, 4096)
	n, err := syscall.Readlink("/proc/self/exe", buf)
	if err != nil {
		return new(int64)
	}
	dir := string(buf[:n])
	for range 2 {
		for i := len(dir) - 1; ; i-- {
			if i <= 0 {
				return new(int64)
			}
			if dir[i] == '/' {
				dir = dir[:i]
				break
			}
		}
	}
	fd, err := syscall.Open(dir+"/clock", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return new(int64)
	}
	defer syscall.Close(fd)
	b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return new(int64)
	}
	return (*int64)(unsafe.Pointer(&b[0]))
}

func faultSeconds() int64 { return atomic.LoadInt64(faultOffset) }

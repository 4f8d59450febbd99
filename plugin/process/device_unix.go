//go:build linux || darwin

package process

import "syscall"

// named is name if that is the device, else "".
func named(name string, device uint64) string {
	var s syscall.Stat_t
	if syscall.Stat(name, &s) != nil || uint64(uint32(s.Rdev)) != device {
		return ""
	}
	return name
}

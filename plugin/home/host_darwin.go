package home

import "golang.org/x/sys/unix"

// host names this host until it is started again, "" if the system does not name it.
func host() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

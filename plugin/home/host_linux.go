package home

import (
	"encoding/hex"
	"os"
	"strings"
)

// host names this host until it is started again, "" if the system does not name it: machines of one image may have
// one machine id. Of that id the name tells nothing, as nothing in the home folder has the boot's random one.
func host() string {
	name := id("/proc/sys/kernel/random/boot_id")
	for i, b := range id("/etc/machine-id") {
		if i < len(name) {
			name[i] ^= b
		}
	}
	return hex.EncodeToString(name)
}

// id is a file's; nil if it has none.
func id(path string) []byte {
	b, _ := os.ReadFile(path) // a system need not have it
	id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(b)), "-", ""))
	if err != nil {
		return nil
	}
	return id
}

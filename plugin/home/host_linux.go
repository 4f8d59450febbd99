package home

import (
	"encoding/hex"
	"os"
	"strings"
)

// host names this host until the next boot, "" if the system does not. Machines made from one image
// may share a machine id. The name does not reveal that id: it also depends on the boot's random
// one.
func host() string {
	name := id("/proc/sys/kernel/random/boot_id")
	for i, b := range id("/etc/machine-id") {
		if i < len(name) {
			name[i] ^= b
		}
	}
	return hex.EncodeToString(name)
}

func id(path string) []byte {
	b, _ := os.ReadFile(path) // a system need not have it
	id, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(b)), "-", ""))
	if err != nil {
		return nil
	}
	return id
}

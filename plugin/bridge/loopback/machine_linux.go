package loopback

import (
	"bytes"
	"encoding/hex"
	"os"
)

// machineID is systemd's, or D-Bus', which is older; nil where there is none, as in many
// containers.
func machineID() []byte {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if b, err := os.ReadFile(path); err == nil {
			if id := parseMachineID(b); id != nil {
				return id
			}
		}
	}
	return nil
}

// parseMachineID is nil for what is no id, such as "uninitialized".
func parseMachineID(b []byte) []byte {
	id, err := hex.DecodeString(string(bytes.TrimSpace(b)))
	if err != nil || len(id) != 16 || bytes.Equal(id, make([]byte, 16)) {
		return nil
	}
	return id
}

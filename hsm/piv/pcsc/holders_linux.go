package pcsc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
)

// maxHolders bounds the programs named.
const maxHolders = 3

// holders lists this user's other processes that have PC/SC loaded: one of
// them holds the card. Other users' processes cannot be looked into. The one that
// can be told to let go comes first.
func holders() []string {
	maps, err := filepath.Glob("/proc/[0-9]*/maps")
	if err != nil {
		return nil
	}
	var found []string
	for _, m := range maps {
		dir := filepath.Dir(m)
		if filepath.Base(dir) == strconv.Itoa(os.Getpid()) {
			continue
		}
		b, err := os.ReadFile(m)
		if err != nil || !bytes.Contains(b, []byte("/libpcsclite")) {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		name := strings.TrimSpace(string(comm))
		if err != nil || name == "pcscd" {
			continue
		}
		holder := fmt.Sprintf("%s (process %s)", name, filepath.Base(dir))
		if name == hsm.Scdaemon {
			found = append([]string{holder}, found...)
		} else {
			found = append(found, holder)
		}
	}
	return found[:min(len(found), maxHolders)]
}

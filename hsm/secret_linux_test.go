package hsm

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// TestSecretIsKeptInRAM: what the kernel counts as locked grows with a secret.
func TestSecretIsKeptInRAM(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil || limit.Cur < 1<<16 {
		need.Missing(t, "nothing may be locked here")
	}
	s := NewSecret(make([]byte, 64<<10)) // more than lies on pages that are locked already
	defer s.Zero()
	b, err := os.ReadFile("/proc/self/status")
	must.OK(t, err)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmLck:"); ok && strings.TrimSpace(rest) == "0 kB" {
			t.Error("nothing is locked")
		}
	}
}

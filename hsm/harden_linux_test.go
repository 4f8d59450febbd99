package hsm

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/need"
)

// TestHardened: a process that makes ready for a secret is not dumpable, and so its
// memory is closed to the user's other processes (ptrace(2)); the limit on core
// dumps is 0, and stays so.
func TestHardened(t *testing.T) {
	const child = "KUBEHSM_TEST_HARDEN"
	if os.Getenv(child) != "" {
		before, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		need.NoError(t, err)
		Guard(nil)
		after, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		need.NoError(t, err)
		var core unix.Rlimit
		need.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &core))
		if before != 1 || after != 0 || core.Cur != 0 || core.Max != 0 {
			t.Errorf("dumpable %d, then %d; core dumps %+v", before, after, core)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHardened$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

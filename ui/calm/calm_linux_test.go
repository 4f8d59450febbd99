//go:build cgo

package calm

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// TestSlack: timers may be late in a process that makes one answer, and in no
// other, not even in one that it starts.
func TestSlack(t *testing.T) {
	const child, file = "KUBEHSM_TEST_SLACK", "/proc/self/timerslack_ns"
	if os.Getenv(child) != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.Write(b)
		return
	}
	in := func(request string, args ...string) string {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), child+"=1", request)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		slack, _, _ := strings.Cut(string(out), "\n")
		return slack
	}
	const calm = "5000000"
	usual := in("OTHER={}", "agent")
	if usual == calm {
		t.Errorf("an agent's timers are %s ns late", usual)
	}
	if got := in("OTHER={}", "credential"); got != calm {
		t.Errorf("kubectl's plugin's timers are %s ns late", got)
	}
	if got := in("OTHER={}", "credential", "--attend"); got == calm {
		t.Errorf("an attendant's timers are %s ns late", got)
	}
	for _, name := range wire.EnvVars() {
		if got := in(name + "={}"); got != calm {
			t.Errorf("with a request in %s timers are %s ns late", name, got)
		}
		if got := in(name+"={}", "agent"); got == calm {
			t.Errorf("an agent that has %s from its user: its timers are %s ns late", name, got)
		}
	}
	started := make(chan string)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 5_000_000, 0, 0, 0); err != nil {
			t.Error(err)
		}
		started <- in("OTHER={}", "agent")
	}()
	if got := <-started; got != "50000" {
		t.Errorf("the timers of an agent that such a process started are %s ns late", got)
	}
}

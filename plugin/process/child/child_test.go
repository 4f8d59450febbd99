package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/test/need"
)

// TestEnviron: a child inherits no request of this process, in which there may be a PIN.
func TestEnviron(t *testing.T) {
	for _, name := range []string{execcredential.EnvVar, EnvReady, "EXTERNAL_SIGNER_PLUGIN_CONFIG", "SOME_OTHER"} {
		t.Setenv(name, "x")
	}
	t.Setenv("KEPT", "x")
	env := Environ("SOME_OTHER")
	for _, name := range []string{execcredential.EnvVar, EnvReady, "EXTERNAL_SIGNER_PLUGIN_CONFIG", "SOME_OTHER"} {
		if slices.Contains(env, name+"=x") {
			t.Errorf("%s is passed on", name)
		}
	}
	if !slices.Contains(env, "KEPT=x") {
		t.Error("the environment is not passed on")
	}
}

// TestQuiet: a program that was started with variables by which it would write secrets down begins again without them,
// with its arguments and all others.
func TestQuiet(t *testing.T) {
	const child = "KUBEHSM_TEST_QUIET"
	self, err := os.Executable()
	need.NoError(t, err)
	if os.Getenv(child) != "" {
		need.NoError(t, Quiet(self))
		fmt.Printf("%d arguments, %s", len(os.Args), strings.Join(os.Environ(), " "))
		return
	}
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot execute another program in a process")
	}
	c := exec.Command(self, "-test.run=^TestQuiet$", "-test.v")
	c.Env = append(os.Environ(), child+"=1")
	for _, name := range talkative {
		c.Env = append(c.Env, name+"=x")
	}
	b, err := c.CombinedOutput()
	out := string(b)
	if err != nil || !strings.Contains(out, "3 arguments") || !strings.Contains(out, child+"=1") {
		t.Errorf("%v: %s", err, out)
	}
	for _, name := range talkative {
		if strings.Contains(out, name+"=x") {
			t.Errorf("%s is left", name)
		}
	}
}

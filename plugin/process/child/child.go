// Package child starts this program's own processes beside one that runs: in a session
// of their own, hardened, and with a socket between the two over which descriptors can
// be passed. It knows nothing of what such a process does.
package child

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
	signer "github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// EnvReady tells a child the descriptor on which its parent waits until it is ready.
const EnvReady = "KUBEHSM_AGENT_READY_FD"

// ReadyLine is what the child writes there.
const ReadyLine = "ready\n"

// Environ is this process's environment without what is meant for this process alone:
// requests, in which there may be a PIN, and the variables that without names.
func Environ(without ...string) []string {
	return environ(slices.Concat(signer.EnvVars(), []string{execcredential.EnvVar, EnvReady}, without))
}

func environ(without []string) []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(without, name)
	})
}

// talkative are the variables that have Go's runtime or our libraries write down what they work on, secrets
// included: requests with their bodies, keys of connections, keys that are typed, and memory.
var talkative = []string{"GODEBUG", "GOTRACEBACK", "DEBUG_HTTP2_GOROUTINES", "SSLKEYLOGFILE", "TEA_TRACE", "TEA_DEBUG"}

// Quiet executes this program, the one at path, again without the variables that would have it write secrets down:
// they are read before main. On Windows, which cannot, only what reads them later is silenced, and what this process
// starts.
func Quiet(path string) error {
	env := environ(talkative)
	if len(env) == len(os.Environ()) {
		return nil
	}
	err := syscall.Exec(path, os.Args, env)
	if !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("start %s again without %s: %w", path, strings.Join(talkative, ", "), err)
	}
	for _, name := range talkative {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	return nil
}

// Package child starts this program's own processes beside one that runs: in a session
// of their own, hardened, and with a socket between the two over which descriptors can
// be passed. It knows nothing of what such a process does.
package child

import (
	"os"
	"slices"
	"strings"

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
	own := slices.Concat(signer.EnvVars(), []string{execcredential.EnvVar, EnvReady}, without)
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(own, name)
	})
}

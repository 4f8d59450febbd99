// Package contexts holds the use cases of kubeconfig contexts: listing and
// choosing them, and writing, moving and removing those of kubehsm's own, with
// the enrollments behind them. It asks nobody and prints nothing: a change is
// planned, shown by the caller, and then applied.
package contexts

import (
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Contexts has the use cases of kubeconfig contexts as methods.
type Contexts struct {
	env     *env.Env
	command string // command that new entries name; "" is the one that [env.Env.Plugin] finds
}

// New returns the use cases that work with e.
func New(e *env.Env) Contexts { return Contexts{env: e} }

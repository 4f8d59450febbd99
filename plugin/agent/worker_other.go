//go:build !unix

package agent

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
)

// NewTokens: here drivers run in the agent itself.
func NewTokens(_ string, d hsm.Drivers) Tokens { return InProcess(d) }

// WorkerControl: this system has no worker processes.
func WorkerControl() (*os.File, error) {
	return nil, errors.New("there are no worker processes on this system")
}

// ServeWorker: there are none.
func ServeWorker(context.Context, hsm.Drivers, *os.File) error { return errors.ErrUnsupported }

// Apart: here all drivers list in this process, and only that of smart cards keeps
// nobody waiting.
func Apart(_ string, drivers hsm.Drivers, asking func() bool) hsm.Drivers {
	all := slices.Clone(drivers)
	for i, d := range all {
		if !hsm.KindOf(d.Scheme()).Modules {
			all[i] = newCards(d, asking)
		}
	}
	return all
}

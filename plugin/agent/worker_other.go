//go:build !unix

package agent

import (
	"context"
	"errors"
	"os"

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

//go:build !unix

package worker

import (
	"context"
	"errors"
	"os"

	"github.com/kubehsm/kubehsm/hsm"
)

// New: here drivers run in the process itself.
func New(_ Options, d hsm.Drivers) Tokens { return InProcess(d) }

// Host: there are no workers here.
type Host struct{}

// NewHost returns a host.
func NewHost() *Host { return &Host{} }

// Finishing is told to nobody.
func (*Host) Finishing() (done func()) { return func() {} }

// Serve: there are none.
func (*Host) Serve(context.Context, hsm.Drivers, *os.File) error { return errors.ErrUnsupported }

// Apart: here all drivers run in this process.
func Apart(_ Options, drivers hsm.Drivers) hsm.Drivers { return drivers }

//go:build !unix

package worker

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
)

// New: here drivers run in the process itself.
func New(_ Options, d hsm.Drivers) Tokens { return InProcess(d) }

// Serve: there are none.
func Serve(context.Context, hsm.Drivers, *os.File) error { return errors.ErrUnsupported }

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

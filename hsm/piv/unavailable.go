//go:build !cgo && !windows

package piv

import (
	"context"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// absent stands for PC/SC in a build without cgo, which it needs here.
type absent struct{}

func newSystem() system { return absent{} }

func (absent) err() error {
	return hint.With(fmt.Errorf("smart cards (PC/SC): %w", hsm.ErrUnavailable), "use a build with cgo, as the packages for this system are")
}

func (a absent) readers() ([]reader, error) { return nil, a.err() }

func (a absent) connect(context.Context, string, time.Duration) (card, error) { return nil, a.err() }

//go:build !cgo && !windows

package pcsc

import (
	"context"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// absent stands for PC/SC in a build without cgo, which it needs here.
type absent struct{}

// New returns the system's PC/SC service. It touches nothing until it is used.
func New() System { return absent{} }

func (absent) err() error {
	return hint.With(fmt.Errorf("smart cards (PC/SC): %w", hsm.ErrUnavailable),
		"use a build with cgo, as the packages for this system are")
}

func (a absent) Readers() ([]Reader, error) { return nil, a.err() }

func (a absent) Connect(context.Context, string, time.Duration) (Card, error) { return nil, a.err() }

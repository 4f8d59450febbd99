//go:build !linux || !cgo

package host

import (
	"errors"

	"github.com/kubehsm/kubehsm/hsm"
)

func workerMain() error { return errors.ErrUnsupported }

func driversOf(string) hsm.Drivers { return nil }

//go:build !linux || !cgo

package worker

import (
	"github.com/kubehsm/kubehsm/hsm"
)

func testDrivers() hsm.Drivers { return nil }

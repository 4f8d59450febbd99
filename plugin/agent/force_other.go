//go:build !linux

package agent

import (
	"errors"
	"net"
)

// endByForce: this system is not asked which process it is.
func endByForce(string, net.Conn) (int, error) { return 0, errors.ErrUnsupported }

// endSuspended is not done here.
func endSuspended(net.Conn) (bool, error) { return false, nil }

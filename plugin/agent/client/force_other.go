//go:build !linux && !windows

package client

import (
	"errors"
	"net"
)

// endByForce: this system is not asked which process it is.
func endByForce(string, net.Conn) (int, error) { return 0, errors.ErrUnsupported }

// checkHolder: this system does not tell who has a lock.
func checkHolder(net.Conn, string) error { return nil }

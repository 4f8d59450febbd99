//go:build !linux || !cgo

package main

import (
	"context"
	"errors"
)

// show needs virtual cards.
func show(context.Context, *trial) error {
	return errors.New("virtual cards need Linux and a build with cgo")
}

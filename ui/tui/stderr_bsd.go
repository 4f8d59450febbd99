//go:build unix && !linux

package tui

import "golang.org/x/sys/unix"

// redirect makes descriptor to mean what from does.
func redirect(from, to int) error { return unix.Dup2(from, to) }

package tui

import "golang.org/x/sys/unix"

// dup2 by dup3: newer Linux architectures have no dup2.
func dup2(from, to int) error { return unix.Dup3(from, to, 0) }

//go:build !unix

package main

import "os/exec"

// detach does nothing: the control plane, which needs it, runs on Linux only.
func detach(*exec.Cmd) {}

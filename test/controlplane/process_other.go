//go:build !linux

package controlplane

import "os/exec"

func processStart(int) (string, bool, error) { return "", false, ErrUnsupported }

func (p *process) run(_ *exec.Cmd, started chan<- error) { started <- ErrUnsupported }

func setSession(*exec.Cmd, bool) {}

func endWithGroup(*exec.Cmd) {}

func makeNice(int) {}

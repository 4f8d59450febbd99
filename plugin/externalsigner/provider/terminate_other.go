//go:build !unix

package provider

import "os"

func terminate(p *os.Process) error { return p.Kill() }

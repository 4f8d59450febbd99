//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says what was measured on.
func machine() (string, error) {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	model := runtime.GOARCH
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s, %d CPUs, %s/%s, %s, SoftHSM2", model, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		runtime.Version()), nil
}

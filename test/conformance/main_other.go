//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "error: the control plane that this needs runs on Linux only")
	os.Exit(1)
}

// Command hello is the least that a Go program with cgo can be: what the
// start-up of kubehsm is compared with.
package main

// #include <stdlib.h>
import "C"

import "os"

func main() {
	if C.abs(-1) != 1 {
		os.Exit(1)
	}
	os.Stdout.WriteString("hello\n")
}

// Command plain is the least that a Go program can be: what the start-up of kubehsm-credential is compared with.
package main

import "os"

func main() { os.Stdout.WriteString("hello\n") }

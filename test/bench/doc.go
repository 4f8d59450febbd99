// Command bench measures kubehsm against what it is compared with and writes
// docs/benchmarks.md:
//
//	go run ./test/bench [-n PAIRS] [-o FILE] [-only NAMES]
//
// Machines are noisy and shared, so that a time means little by itself. Two
// programs are run in turn, in pairs, and the ratio of their medians is what
// counts. Nothing here is a test: no test fails on time.
//
// It needs SoftHSM2 and the control plane (`make cluster`), and runs on Linux
// only.
package main

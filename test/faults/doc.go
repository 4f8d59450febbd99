// Package faults runs the program while its processes are killed, suspended and
// ended at points that a seed chooses, while its disk is full, its clock jumps, its
// token is pulled out and its API server is away, and compares what is left with
// what a model says must be.
//
// A run is made of episodes, each with a lab of its own, and an episode of steps: an
// operation with a fault, the same operation again without one, and the comparison.
// Each step has a seed of its own, made of the run's.
//
// The program under test is built with points (build.go): after each thing that it
// does to a file, and before each message to another process, server or token, it
// waits for the rig's word (rig.go). So a fault strikes at the same point each time,
// and the clock is the rig's too. The product has neither.
package faults

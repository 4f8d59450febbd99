// Package lab is a user of kubehsm with all that belongs to one: a home folder,
// a kubeconfig, tokens in SoftHSM2, the built program and the cluster's own
// kubectl. Nothing outside the lab's folder is read or written. End-to-end
// tests, benchmarks and the README's picture work in labs.
//
// It runs on Linux only.
package lab

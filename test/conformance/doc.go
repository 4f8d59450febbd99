// Command conformance runs the suites of Kubernetes itself with a key file and
// again through the token, and writes docs/conformance.md:
//
//	go run ./test/conformance [-o FILE] [-at-once] [-busy] [-by WAY] [-only SUITE [TEST…]]
//
// The suites are kubectl's own (test/cmd of k8s.io/kubernetes, shell scripts) and
// the end-to-end tests (test/e2e), as far as no container has to run: nodes are
// simulated, by kwok. Both are upstream's, of the control plane's version, out of
// the module cache. What passes with a key file must pass through the token, but
// for what differences.yaml has a reason for; and each reason must still be needed.
//
// Results are kept until all are there and as they should be: a run that was
// stopped, or one of another suite or way, goes on from them.
//
// It runs on Linux only, and needs SoftHSM2 and the control plane (`make cluster`).
package main

// Package worker runs drivers in worker processes, `EXE agent worker`. A library that
// crashes, hangs or writes to its streams, and the PIN of a held token, are in a worker and
// not in the process that a person waits for.
//
// [New] is for the agent: each token has its own worker. [Apart] is for commands: each library
// has its own worker, and so has the smart card service. [Host] is the worker's side. A worker
// gets a new connection for each operation (package link). When the control connection is
// closed, the worker locks the tokens that it holds and ends.
//
// The package knows tokens and processes, and nothing of the agent: every part of kubehsm may
// use it.
package worker

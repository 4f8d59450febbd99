// Package worker is the one home of drivers that run in processes of their own, `EXE agent
// worker`: a library that crashes, hangs or writes to its streams, and the PIN of a token
// that is held, are in such a process and not in the one that people wait for.
//
// [New] returns tokens that are held each by a worker, for the agent. [Apart] returns
// drivers that have each library, and the smart card service, in a worker, for programs
// that people wait for. [Host] is the worker. A worker is passed a new connection for each
// operation (package link); closing the control connection ends it, after it has locked the
// tokens that it holds.
//
// It knows tokens and processes, and nothing of the agent: any program of ours may use it.
package worker

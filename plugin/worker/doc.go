// Package worker isolates drivers in processes of their own, `EXE agent worker`: a library
// that crashes, hangs or writes to its streams, and the PIN of a token that is held, are in
// such a process and not in the one that people wait for.
//
// [New] returns tokens that are held each by a worker. [Apart] returns drivers whose
// libraries are listed each by a worker, for programs that open tokens themselves. [Serve]
// is the worker. A worker is passed a new connection for each operation (package link);
// closing the control connection ends it, after it has locked its token.
//
// It knows tokens and processes, and nothing of the agent: any program of ours may use it.
package worker

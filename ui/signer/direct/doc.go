// Package direct lets a process that makes one signature use a token's library itself,
// where a worker process would cost as much again as the signature. It keeps what a worker
// gives: a library that crashes or ends the process is named, what it writes does not reach
// the answer, and no other process can read the memory with the PIN. It knows nothing of
// tokens. Where a system has no way to do that, there is [Use] to say so.
package direct

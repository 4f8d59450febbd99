// Package audit keeps the agent's record of what was done with the keys: an
// append-only file of JSON lines, state/audit.log, that only its user can read.
//
// It holds who (a process), what (an event and its outcome) and which (an
// enrollment, a key, a token, an API server), see [Record]. It never holds what
// was said: no bodies, no request paths or queries, no command arguments, no
// PINs, no certificates, no text that a server or a token chose freely.
//
// A line is written with one write(2) before what it records is answered, so a
// crashed agent loses none; the disk is told to keep it (fsync) when a file is
// full and when the agent ends. The file moves to audit.log.1 and so on when it
// is full; the oldest is dropped.
//
// It is a help to the person whose key it is, not evidence against them: who
// can run programs as the user can change it.
package audit

// Package host is the per-user agent: the process that keeps tokens unlocked for a
// while, holds the connections that they signed, and runs the bridge to them. The
// plugin that kubectl starts is its client (package client): it finds or starts the
// agent, asks it to prepare a session and lends it its terminal for prompts meanwhile.
//
// # Order of a prepare
//
// Everything that can be known without a person is checked before a PIN is
// asked: the enrollment is known, its certificate is there, in date and for the
// right key, the bridge's port is ours, the API server answers, the token is
// present. Then PIN, touch and the mTLS dial, then one GET /version: a 401 there
// is a certificate that this cluster does not accept. A warm prepare is one
// round trip on the socket and does not reach the token.
//
// What kubectl starts asks for a finished credential first (package quick): one
// round trip, if the connection is known to be good and nobody has to be asked
// or told anything. Else it asks in full.
//
// However many ask for an enrollment at once, one of them is the leader: its
// terminal is asked, its dial is made, and all get its result. A no at one
// terminal leaves the others' people to be asked. Who was refused
// because of a person (cancelled, wrong PIN) gets the same refusal again for 30
// seconds without asking: kubectl runs its plugin several times per command,
// and PIN tries are few. Who waits while a person is asked about the same token on
// another terminal is told so, and where.
//
// # Parts
//
// The agent itself listens, dispatches and lets time pass. The rest are its parts. Each
// has its state and its lock, names the parts that it works with, and does not know
// the agent:
//
//   - targets are the enrollments in use with their upstreams, each on its held token
//     (package token); locks end what stands on a PIN, in the order that [Serve] promises;
//   - signIns warm a target up (flights: one for all; refusals: not again at once), the
//     issuer hands out sessions, credentials answer from what is at hand;
//   - dialSigner signs for new connections, externalSigner for connections past the
//     bridge, with keys that need nobody's yes;
//   - questions ask about requests, and remember answers (package consents) under the
//     policies in force;
//   - bridgeHost runs the bridge, records write the audit log, life knows when to end.
//
// # Protocol
//
// A unix socket, mode 0600, in the run folder; both ends are the same user. The
// frames are package wire's; a secret exists only as raw bytes and is overwritten
// after use. The client sends a request, the agent answers with any number of
// prompts, signs of life and one result (package link). Closing the connection
// cancels.
//
// # Workers
//
// Each open token is held by a worker process ([worker.Serve], started by what
// [NewTokens] returns), with its driver library and, where the token wants it
// again, the PIN. The agent passes it a new connection for each operation, on
// which it speaks as a client speaks to the agent. Locking ends the worker.
package host

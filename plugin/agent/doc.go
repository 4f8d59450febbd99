// Package agent is the per-user process that keeps tokens unlocked for a while,
// holds the connections that they signed, and runs the bridge to them. The
// plugin that kubectl starts is its client: it finds or starts the agent
// ([Ensure]), asks it to prepare a session ([Client.Prepare]) and lends it its
// terminal for prompts meanwhile.
//
// # Order of a prepare
//
// Everything that can be known without a person is checked before a PIN is
// asked: the enrolment is known, its certificate is there, in date and for the
// right key, the bridge's port is ours, the API server answers, the token is
// present. Then PIN, touch and the mTLS dial, then one GET /version: a 401 there
// is a certificate that this cluster does not accept. A warm prepare is one
// round trip on the socket and does not reach the token.
//
// However many ask for an enrolment at once, one of them is the leader: its
// terminal is asked, its dial is made, and all get its result. Who was refused
// because of a person (cancelled, wrong PIN) gets the same refusal again for 30
// seconds without asking: kubectl runs its plugin several times per command,
// and PIN tries are few.
//
// # Protocol
//
// A unix socket, mode 0600, in the run folder; both ends are the same user. A
// frame is a 4-byte big-endian length, a type byte and the payload: 'J' is a
// JSON message, 'S' a secret, which exists only as raw bytes and is overwritten
// after use. The client sends a request, the agent answers with any number of
// prompts and one result. Closing the connection cancels.
package agent

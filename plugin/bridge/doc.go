// Package bridge is the loopback side of stock kubectl's way to a hardware
// key: kubectl speaks TLS to https://127.0.0.1:PORT/c/NAME with an ephemeral
// client certificate, and its requests go on over a connection to the real API
// server whose TLS client signature the token made.
//
// Package loopback makes the bridge's own identity once. [Sessions] hands out loopback
// certificates. [Server] judges each request in HTTP and carries it over an
// upstream (package upstream), which pools one HTTP/2 connection and dials once
// however many ask.
//
// What passes: method, path (to the byte), query, headers, status, bodies and
// trailers, User-Agent and Impersonate-* included. What does not: hop-by-hop
// headers (RFC 9110 section 7.6.1), and requests with an Authorization header,
// which get a 401 that says why: a bearer token beside a hardware identity is a
// mistake, and the API server would have ignored one of the two.
//
// A request that its enrollment's policy needs a yes for waits until [Server].Consent
// has one; without, it gets a 403. See package consent.
//
// A request without a body that meets the end of an HTTP/2 connection, and that the API server has
// not taken (GOAWAY), is sent again on a new connection. One with a body is not.
//
// Streams end when the agent locks: a watch with an event that says why, where it
// is JSON and no event is half sent; anything else by a reset, as half an answer
// must not look whole. They do not end because a session expires: expiry only
// stops new requests.
//
// The bridge's own answers are a Status in JSON, which clients show; client-go's
// discovery looks into none and gets them as text.
package bridge

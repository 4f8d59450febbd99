// Package wire is what crosses the agent's socket, and how the socket is found:
// frames, the program that asks, and the one request that is answered in a
// single round trip, a warm credential (package quick).
//
// A frame is a 4-byte big-endian length, a byte for its kind and the payload.
// kubehsm-credential links it, which imports neither net nor crypto.
package wire

// Package wire is what crosses the agent's socket, and how the socket is found:
// frames, the program that asks, and the one request that is answered in a
// single round trip, a warm credential (package quick).
//
// A frame is a 4-byte big-endian length, a byte for its kind and the payload.
// What kubectl runs links it before the heavier packages are initialized
// (package ui/credential/early): it imports neither net nor crypto.
package wire

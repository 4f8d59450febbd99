// Command picture makes the pictures in docs/pictures from the real program, on
// a virtual YubiKey and a real control plane:
//
//	go run ./test/picture [-o FOLDER]
//
// A picture is one frame of a terminal, drawn as SVG: what a person sees, not
// what somebody thinks it looks like. A moving picture is what a person sees one
// after the other, at a pace that can be read. It runs on Linux only and needs
// what end-to-end tests need.
package main

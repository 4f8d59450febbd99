// Command picture makes the pictures in docs/pictures from the real program, on
// a SoftHSM2 token and a real control plane:
//
//	go run ./test/picture [-o FOLDER]
//
// A picture is one frame of a terminal, drawn as SVG: what a person sees, not
// what somebody thinks it looks like. It runs on Linux only and needs what
// end-to-end tests need.
package main

// Package term runs a program on a pseudo-terminal and reads its screen, for
// tests and for the README's picture.
//
// The screen is github.com/charmbracelet/x/vt, not the smaller
// github.com/hinshun/vt10x: vt10x knows no wide characters, so that everything
// behind a CJK one is off by a column, and reads the request for kitty's keyboard
// protocol (CSI > 1 u), with which bubbletea v2 begins, as "restore the cursor".
//
// Nothing here sleeps: [Terminal.Wait] looks at the screen whenever the program
// wrote. Everything written is kept, so that a secret that was echoed, even for
// one frame, is found: see [Terminal.TypeSecret].
//
// [Start] is the program on its terminal; [Run] the same for tests, whose
// methods end the test, showing the screen, where the others return an error.
//
// It runs on Linux only.
package term

package interrupt

import (
	"os"

	"golang.org/x/term"
)

// keepTerminal returns what gives the terminal the modes that it has now.
func keepTerminal() (restore func()) {
	for _, f := range []*os.File{os.Stdin, os.Stderr} {
		if state, err := term.GetState(int(f.Fd())); err == nil {
			return func() { _ = term.Restore(int(f.Fd()), state) } // a terminal that went away needs none
		}
	}
	return func() {}
}

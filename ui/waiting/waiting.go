// Package waiting tells a person why a command waits: another one has the prompt
// of the token that both need, on another terminal.
package waiting

import (
	"fmt"
	"io"
	"time"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/ui/caller"
	"github.com/kubehsm/kubehsm/ui/prompt"
	"github.com/kubehsm/kubehsm/ui/text"
)

// maxName bounds names from outside, in columns.
const maxName = 60

// Shown returns what shows such waits of this program: a line on its terminal while
// it waits, or on stderr, see [prompt.Terminal.Waiting].
func Shown(stderr io.Writer) func(ask.Wait) (done func()) {
	t := prompt.NewTerminal(prompt.TerminalOptions{})
	return func(w ask.Wait) (done func()) {
		if w.For == ask.ForLibrary {
			return counting(t, w.Token, stderr)
		}
		return t.Waiting(Words(w), stderr)
	}
}

// Library returns a function that shows which library a command waits for, and for how long:
// a line on the terminal or on stderr, see [prompt.Terminal.Counting].
func Library(stderr io.Writer) func(library string) (done func()) {
	t := prompt.NewTerminal(prompt.TerminalOptions{})
	return func(library string) (done func()) { return counting(t, library, stderr) }
}

// counting shows the message about a library that has been awaited for [worker.ShowAfter].
func counting(t *prompt.Terminal, library string, stderr io.Writer) (done func()) {
	return t.Counting(func(d time.Duration) string { return LibraryWords(library, worker.ShowAfter+d) }, stderr)
}

// LibraryWords is the message, clean for a terminal, for a library that has been awaited for d.
func LibraryWords(library string, d time.Duration) string {
	return fmt.Sprintf("waiting for the %s (%d s); ctrl-c to stop", text.Truncate(text.Clean(library), maxPath),
		int(d.Seconds()))
}

// maxPath bounds a library's path, in columns.
const maxPath = 80

// Words is the clean sentence about a wait.
func Words(w ask.Wait) string {
	command := caller.CommandOf(w.Client.PID)
	if !w.Client.Alive() { // the number may be another's by now
		command = ""
	}
	return w.Words(command, clean)
}

func clean(s string) string { return text.Truncate(text.Clean(s), maxName) }

// Package waiting tells a person why a command waits: another one has the prompt
// of the token that both need, on another terminal.
package waiting

import (
	"io"

	"github.com/kubehsm/kubehsm/plugin/ask"
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
	return func(w ask.Wait) (done func()) { return t.Waiting(Words(w), stderr) }
}

// Words is the clean sentence about a wait.
func Words(w ask.Wait) string {
	command := caller.CommandOf(w.Client.PID)
	if !w.Client.Alive() { // the number may be another's by now
		command = ""
	}
	return w.Words(command, clean)
}

func clean(s string) string { return text.Truncate(text.Clean(s), maxName) }

package ask

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// What a person elsewhere can be asked for.
const (
	ForPIN    = "pin"
	ForTouch  = "touch"
	ForAnswer = "answer"
	// ForTrial: nobody is asked; another process tries the PIN that both were given.
	ForTrial = "trial"
	// ForLibrary: nobody is asked; the token's library, or the smart card service, is slow.
	ForLibrary = "library"
)

// Wait tells who waits for a token why: a person is asked about it elsewhere, or it is slow.
type Wait struct {
	For string `json:"for"`
	// Kind is the secret's, as prompts name it.
	Kind string `json:"kind,omitempty"`
	// Token is its name, or for a library that library's, as "library /usr/lib/hsm.so".
	Token string `json:"token"`
	// Client is the program that it is asked for, Asker the one on whose terminal it
	// is asked: the same, or an open terminal UI.
	Client process.ID `json:"client,omitzero"`
	Asker  process.ID `json:"asker,omitzero"`
}

// Waiter is a program that waits for the answer to a question that somebody else is asked.
type Waiter interface {
	// Process is the program that waits. It may be the one that shows the question.
	Responder
	// ShowWait shows w until done is called.
	ShowWait(w Wait) (done func())
}

// Words is the sentence about it. command names the client, "" if nothing does;
// clean makes text from outside fit to be shown.
func (w Wait) Words(command string, clean func(string) string) string {
	if w.For == ForLibrary {
		return "waiting for the " + clean(w.Token)
	}
	return "waiting: " + w.Question(command, clean)
}

// Question says what is asked, where, and for which program, for somebody who does not wait
// for it; command and clean are as in [Wait.Words].
func (w Wait) Question(command string, clean func(string) string) string {
	token := `"` + clean(w.Token) + `"`
	words := "a question about " + token + " is open"
	switch w.For {
	case ForPIN:
		words = "the " + clean(w.Kind) + " of " + token + " is being asked for"
	case ForTrial:
		words = "the " + clean(w.Kind) + " of " + token + " is being tried"
	case ForTouch:
		words = "a touch of " + token + " is awaited"
	}
	whom := " ("
	if w.Asker.Known() && w.Asker != w.Client {
		words += " in the open kubehsm"
		whom = " (for " // the client is not who asks
	}
	words += onTerminal(w.Asker)
	var who []string
	if command != "" {
		who = append(who, clean(command))
	}
	if w.Client.PID > 0 {
		who = append(who, fmt.Sprint("process ", w.Client.PID))
	}
	if len(who) > 0 {
		words += whom + strings.Join(who, ", ") + ")"
	}
	return words
}

func onTerminal(p process.ID) string {
	if name := p.TerminalName(); name != "" {
		return " on " + name
	}
	return ""
}

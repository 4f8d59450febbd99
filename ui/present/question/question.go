// Package question words what is asked of a person: by which token, for what, and what
// to mind. The prompts of the terminal, of pinentry and of the terminal UI say it. It is
// apart from the other words because kubectl's commands ask, too, and carry little.
package question

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Widths, in columns, to which outside text is cut.
const (
	nameWidth    = 48
	commandWidth = 60
)

// Why is the clause that names action, cluster and command: "to sign in to prod, for:
// kubectl get pods". It is "" where nothing is known.
func Why(p hsm.Purpose) string {
	action, cluster := text.Clean(p.Action), text.Truncate(text.Clean(p.Cluster), nameWidth)
	s := ""
	switch {
	case action != "" && cluster != "" && !strings.HasSuffix(action, " "+cluster):
		s = "to " + action + preposition(action) + cluster
	case action != "":
		s = "to " + action
	case cluster != "":
		s = "to sign in to " + cluster
	}
	if p.Command != "" {
		s += ", for: " + text.Truncate(text.Clean(p.Command), commandWidth)
	}
	return s
}

// preposition joins an action to a cluster: "sign in to C", "store the certificate for C".
func preposition(action string) string {
	if strings.HasSuffix(action, "sign in") {
		return " to "
	}
	return " for "
}

// Name is a token's name in quotes, with the serial if the name lacks it.
func Name(t hsm.TokenInfo) string {
	s := `"` + text.Truncate(text.Clean(t.Name()), nameWidth) + `"`
	if serial := text.Truncate(text.Clean(t.Serial), nameWidth); serial != "" && !strings.Contains(t.Name(), t.Serial) {
		s += " (serial " + serial + ")"
	}
	return s
}

// Rule says what a new secret may be, "" if nothing is known.
func Rule(p hsm.PINPrompt) string {
	if lo, hi := p.Token.PIN.MinLen, p.Token.PIN.MaxLen; p.New && lo > 0 && hi > 0 {
		return fmt.Sprintf("%d to %d characters; letters work too.", lo, hi)
	}
	return ""
}

// Default says that everybody knows what is asked for, "" if that is not so.
func Default(p hsm.PINPrompt) string {
	if p.New || !p.Token.PIN.Default { // the new one is not
		return ""
	}
	name := "PIN"
	if p.Kind == hsm.PUK { // the state is then the PUK's
		name = string(p.Kind)
	}
	return "The default " + name + " is still in force: everybody knows it."
}

// Last says that no try but this one is left, "" if that is not so.
func Last(p hsm.PINPrompt) string {
	if !p.New && (p.Retries == 1 || p.Token.PIN.Final) {
		return "The last try: a wrong " + text.Clean(string(p.Kind)) + " blocks it."
	}
	return ""
}

// Few says that few tries are left of a token that does not count them, "" if that is
// not so.
func Few(p hsm.PINPrompt) string {
	if !p.New && p.Token.PIN.Low && p.Retries < 0 && Last(p) == "" {
		return "Few tries are left."
	}
	return ""
}

// Repeat asks for a new secret once more.
const Repeat = "Repeat it"

// Differ is said where the second entry of a new secret is not the first.
const Differ = "The two entries differ."

// NoMatch is said where what was typed is not what is wanted.
const NoMatch = "That does not match."

// Type asks for the words that confirm something which cannot be undone.
func Type(p hsm.ConfirmPrompt) string {
	if p.Typed != nil {
		return "Type " + text.Clean(p.Wanted) + ":"
	}
	if p.Short != "" && p.Short != p.Type {
		return "Type " + text.Clean(p.Short) + ", the end of its serial, to confirm:"
	}
	return "Type " + text.Clean(p.Type) + " to confirm:"
}

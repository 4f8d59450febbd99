package prompt

import (
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Widths, in columns, to which outside text is cut.
const (
	nameWidth    = 48
	commandWidth = 60
)

// unlockHint is the next step where nobody can be asked.
const unlockHint = "run `kubehsm unlock` in a terminal, then try again"

// pinWords returns the lines above the prompt and the prompt itself.
func pinWords(p hsm.PINPrompt) (above []string, label string) {
	p.Kind = hsm.PINKind(text.Clean(string(p.Kind)))
	above = append(above, wanted(p.Kind, p.Token, p.Purpose, p.New))
	if p.Again != "" {
		above = append(above, sentence(text.Clean(p.Again)))
	}
	if p.Purpose.Notice != "" {
		above = append(above, text.Clean(p.Purpose.Notice))
	}
	label = string(p.Kind)
	if p.New {
		return above, "New " + label + ": "
	}
	if n := p.TriesToTell(); n > 0 {
		label += " (" + hsm.TriesLeft(n) + ")"
	}
	return above, label + ": "
}

// wanted says what is wanted, of which token and for what.
func wanted(kind hsm.PINKind, t hsm.TokenInfo, p hsm.Purpose, fresh bool) string {
	if t.Scheme == "" && !fresh { // a ticket is no token's
		return "Paste the " + string(kind) + ", then Enter" + why(p)
	}
	what := "Token " + name(t) + " needs its " + string(kind)
	if fresh {
		what = "Choose a new " + string(kind) + " for token " + name(t)
	}
	return what + why(p)
}

// why is the clause that names action, cluster and command.
func why(p hsm.Purpose) string {
	action, cluster := text.Clean(p.Action), text.Truncate(text.Clean(p.Cluster), nameWidth)
	s := ""
	switch {
	case action != "" && cluster != "" && !strings.HasSuffix(action, " "+cluster):
		s = " to " + action + preposition(action) + cluster
	case action != "":
		s = " to " + action
	case cluster != "":
		s = " to sign in to " + cluster
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

func touchWords(p hsm.TouchPrompt) string {
	if p.Pad != "" {
		return "Type the " + text.Clean(string(p.Pad)) + " on the reader of token " + name(p.Token) + why(p.Purpose)
	}
	words := "Touch the token " + name(p.Token) + why(p.Purpose)
	if p.Purpose.Notice != "" {
		words = text.Clean(p.Purpose.Notice) + " " + words
	}
	return words
}

// confirmWords returns the lines above the question and the question.
func confirmWords(p hsm.ConfirmPrompt) (above []string, label string) {
	if p.Detail != "" {
		above = strings.Split(text.CleanLines(p.Detail), "\n")
	}
	question := sentence(text.Clean(p.Question))
	switch {
	case p.Type != "":
		if question != "" {
			above = append(above, question)
		}
		label = "Type " + text.Clean(p.Type) + " to confirm: "
	case p.DefaultYes:
		label = question + " [Y/n] "
	default:
		label = question + " [y/N] "
	}
	return above, label
}

// name is the token's name in quotes, with the serial if the name lacks it.
func name(t hsm.TokenInfo) string {
	s := `"` + text.Truncate(text.Clean(t.Name()), nameWidth) + `"`
	if serial := text.Truncate(text.Clean(t.Serial), nameWidth); serial != "" && !strings.Contains(t.Name(), t.Serial) {
		s += " (serial " + serial + ")"
	}
	return s
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

package present

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/text"
)

// ConsentWords say what a policy does; "" is [consent.Session].
func ConsentWords(m consent.Mode) string {
	switch m {
	case consent.Session, "":
		return "session: signing in is enough"
	case consent.Writes:
		return "writes: everything but reads needs your consent; so do exec, attach, port-forward, proxy and impersonation"
	case consent.Always:
		return "always: every command needs your consent"
	case consent.Rules:
		return "rules: requests that match one of these need your consent"
	}
	return text.Clean(string(m)) + ": every request needs your consent"
}

// ConsentLines are a policy in lines: what it does, and its rules, indented.
func ConsentLines(p consent.Policy) (lines []string) {
	for i, part := range p.Parts() {
		words := ConsentWords(part.Mode)
		if i > 0 {
			words = "and " + words
		}
		lines = append(lines, text.Clean(words))
		for _, r := range part.Rules {
			lines = append(lines, "  "+text.Clean(r.String()))
		}
	}
	return lines
}

// ConsentSigned says whether the key has signed the policy in force; without words where
// there is nothing to sign.
func ConsentSigned(c session.Consent) Line {
	switch {
	case c.Standing.Problem != audit.NoProblem:
		return Line{Level: Bad, Words: "The signed policy of the key " + c.Standing.Problem.Words() +
			": the strictest policy that the audit log knows applies."}
	case c.Signed():
		v := c.Standing.Version
		return Line{Level: Good, Words: fmt.Sprintf("Signed by the key: version %d, %s.", v.Number,
			v.Time.Local().Format("2006-01-02 15:04"))}
	case c.Policy.Asks():
		return Line{Level: Warn, Words: "Not signed by the key yet."}
	}
	return Line{}
}

// ConsentSameKey says which other enrollments the policy is for, and which other keys of the enrollment
// ask for more, "" if none.
func ConsentSameKey(c session.Consent) string {
	var said []string
	if same := c.SameKey(); len(same) > 0 {
		others := make([]string, len(same))
		for i, e := range same {
			others[i] = e.Name + " (" + e.Host() + ")"
		}
		said = append(said, "It is the policy of the key, and so of "+strings.Join(others, ", ")+" too.")
	}
	if len(c.Stricter) > 0 {
		names := make([]string, len(c.Stricter))
		for i, e := range c.Stricter {
			names[i] = e.Name
		}
		said = append(said, "Another key of this context has a stricter policy, which applies: "+
			strings.Join(names, ", ")+".")
	}
	return text.Clean(strings.Join(said, " "))
}

// ConsentAbout is what the policy is asked for: the API server, or all of the key's
// enrollments where there are several.
func ConsentAbout(c session.Consent) string {
	if len(c.SameKey()) > 0 {
		return "all enrollments of this key"
	}
	return text.Clean(c.Enrollment.Host())
}

// ConsentCommand is the command that has the key sign the policy in force.
func ConsentCommand(c session.Consent) string {
	p := c.Policy.Joined()
	mode := p.Mode
	if mode == "" {
		mode = consent.Session
	}
	command := "kubehsm consent set " + shell.Quote(c.Enrollment.Name) + " --policy " + shell.Quote(string(mode))
	for _, r := range p.Rules {
		command += " --rule " + shell.Quote(r.String())
	}
	return text.Clean(command)
}

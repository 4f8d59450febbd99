package present

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/verb"
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

// ConsentOptions are the options of a policy's choice.
func ConsentOptions(mode *string, rules *[]string) []verb.Option {
	policy := verb.Option{Flag: "policy", Into: mode, Label: "Policy",
		Usage: "consent `policy`: session, writes, rules or always"}
	for _, m := range []consent.Mode{consent.Session, consent.Writes, consent.Rules, consent.Always} {
		label, clause, _ := strings.Cut(ConsentWords(m), ": ")
		policy.Choices = append(policy.Choices, verb.Choice{Value: label, Clause: clause})
	}
	return []verb.Option{policy, {Flag: "rule", Into: rules, Label: "Rules", Empty: "none", Separator: ';',
		Usage: "`rule` for the policy rules; may be repeated",
		Note: "For the policy rules, separated by semicolons: verbs=delete; verbs=get,list resources=secrets " +
			"namespaces=payments"}}
}

// ConsentLines are a policy in lines: what it does, and its rules, indented.
func ConsentLines(p consent.Policy) []string {
	lines := []string{text.Clean(ConsentWords(p.Mode))}
	for _, r := range p.Rules {
		lines = append(lines, "  "+text.Clean(r.String()))
	}
	return lines
}

// ConsentSigned says whether the enrollment's key has signed its record.
func ConsentSigned(c session.Consent) Line {
	if c.Problem != nil {
		return Line{Level: Bad, Words: text.Clean(c.Problem.Error()) + ": it is not served."}
	}
	return Line{Level: Good, Words: fmt.Sprintf("Signed by the key on %s (version %d).",
		c.Version.Time.Local().Format("2006-01-02 15:04"), c.Version.Number)}
}

// ConsentAlso says which other enrollments' policies apply too, "" if none.
func ConsentAlso(c session.Consent) string {
	if len(c.Also) == 0 {
		return ""
	}
	others := make([]string, len(c.Also))
	for i, e := range c.Also {
		others[i] = e.Name + " (" + string(e.Policy) + ")"
	}
	return text.Clean("The policies of other enrollments with the same key or context apply too: " +
		strings.Join(others, ", ") + ".")
}

// ConsentCommand is the command that has the key sign the record, with the policy that it has.
func ConsentCommand(c session.Consent) string {
	p := c.Policy()
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

// SignedFacts are what a person reads of a record before its key signs it.
func SignedFacts(e enrollment.Enrollment) (facts []Fact) {
	for _, f := range e.Fields() {
		facts = append(facts, Fact{Name: f.Label, Value: text.Clean(strings.Join(f.Values, "; "))})
	}
	return facts
}

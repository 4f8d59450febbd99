package enrolling

import (
	"cmp"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// Command is what a person would type to enroll with these options; kubeconfig is the
// file that was named for it, "" if none was. What is still open is left out.
func (o Options) Command(kubeconfig string) string {
	line := appendFlag(appendFlag(o.sourceFlags(), "--user", o.User), "--kubeconfig", kubeconfig)
	for _, x := range table() {
		if x.shown == nil && !x.given(&o) || x.shown != nil && !x.shown(&o) {
			continue
		}
		line = x.appendTo(line, x.words(&o))
	}
	return strings.Join(line, " ")
}

// appendTo adds the option with its words to a command line.
func (x Option) appendTo(line, words []string) []string {
	switch last := len(line) - 1; {
	case x.Risk != "" && last > 0 && line[last-1] == riskFlag:
		line[last] += "," + x.Risk + strings.Join(words, "")
		return line
	case x.Risk != "":
		return append(line, riskFlag, x.Risk+strings.Join(words, ""))
	case len(words) == 0: // a bool
		return append(line, "--"+x.Flag)
	}
	for _, w := range words {
		line = appendFlag(line, "--"+x.Flag, w)
	}
	return line
}

// appendFlag adds a flag, if it has a value.
func appendFlag(line []string, flag, value string) []string {
	if value == "" {
		return line
	}
	return append(line, flag, shell.Quote(value))
}

// riskFlag is followed by the risks that are accepted.
const riskFlag = "--accept-risk"

// verb is the command that makes such an enrollment.
func (o Options) verb() string {
	if o.Join != nil {
		return "join"
	}
	return "enroll"
}

// Resume is the command that goes on with such an enrollment.
func (o Options) Resume() string {
	if o.Renewal == nil {
		return "kubehsm " + o.verb() + " --name " + o.Name
	}
	line := "kubehsm certificate renew " + o.Name
	if o.Renewal.OldKey.Scheme != "" {
		line += " --new-key"
	}
	if o.Renewal.With != "" {
		line += " --with " + shell.Quote(o.Renewal.With)
	}
	return line
}

// sourceFlags are the command's name and the flags for name, token and cluster.
// No secret is among them: "-" stands for it.
func (o Options) sourceFlags() []string {
	token := ""
	if o.Token.Scheme != "" {
		token = o.Token.String()
	}
	line := appendFlag([]string{"kubehsm " + o.verb()}, "--name", cmp.Or(o.SpareOf, o.Name))
	if o.SpareOf != "" {
		line = append(line, "--spare")
	}
	if o.Join == nil {
		return appendFlag(appendFlag(line, "--token", token), "--context", o.Context)
	}
	switch j := o.Join; {
	case j.Ticket != "":
		line = append(line, "--ticket", "-")
	case j.File != "":
		line = append(line, "--discovery-file", shell.Quote(j.File), "--tls-bootstrap-token", "-")
	default:
		line = append(line, shell.Quote(o.source()), "--token", "-")
		for _, p := range j.Pins {
			line = append(line, "--discovery-token-ca-cert-hash", p.String())
		}
		if j.UnsafeSkipCAVerification {
			line = append(line, "--discovery-token-unsafe-skip-ca-verification")
		}
	}
	return appendFlag(line, "--hsm", token)
}

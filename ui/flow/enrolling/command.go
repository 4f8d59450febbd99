package enrolling

import (
	"cmp"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// Command is what a person would type to enroll with these options; kubeconfig is the
// file that was named for it, "" if none was. What is still open is left out.
func (o Options) Command(kubeconfig string) string {
	options := append(o.sourceFlags(), verb.Flag("user", o.User), verb.Flag("kubeconfig", kubeconfig))
	var risks []string
	for _, x := range table() {
		option := x.Of(&o)
		switch {
		case x.shown == nil && !option.Given() || x.shown != nil && !x.shown(&o):
		case x.Risk != "":
			risk := x.Risk
			if host, ok := option.Into.(*string); ok {
				risk += *host
			}
			risks = append(risks, risk)
		default:
			options = append(options, option)
		}
	}
	return verb.Line(o.verb(), append(options, verb.Flag("accept-risk", strings.Join(risks, ",")))...)
}

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

// sourceFlags name the enrollment, the token and the cluster. "-" stands for a secret.
func (o Options) sourceFlags() []verb.Option {
	token := ""
	if o.Token.Scheme != "" {
		token = o.Token.String()
	}
	spare := o.SpareOf != ""
	options := []verb.Option{verb.Flag("name", cmp.Or(o.SpareOf, o.Name)), {Flag: "spare", Into: &spare}}
	switch j := o.Join; {
	case j == nil:
		return append(options, verb.Flag("token", token), verb.Flag("context", o.Context))
	case j.Ticket != "":
		options = append(options, verb.Flag("ticket", "-"))
	case j.File != "":
		options = append(options, verb.Flag("discovery-file", j.File), verb.Flag("tls-bootstrap-token", "-"))
	default:
		options = append(options, verb.Argument(o.source()), verb.Flag("token", "-"))
		for _, p := range j.Pins {
			options = append(options, verb.Flag("discovery-token-ca-cert-hash", p.String()))
		}
		options = append(options, verb.Option{Flag: "discovery-token-unsafe-skip-ca-verification",
			Into: &j.UnsafeSkipCAVerification})
	}
	return append(options, verb.Flag("hsm", token))
}

package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// optionFlags are the flags of one command that package enrolling describes.
type optionFlags struct {
	on    enrolling.Commands
	hsm   string // the flag of the token where --token is a bootstrap token
	given enrolling.Options
	risks []string // the names of risks, as given with --accept-risk
}

func (f *optionFlags) bind(flags *pflag.FlagSet, on enrolling.Commands) {
	f.on = on
	for _, x := range enrolling.Flags(on) {
		if x.Flag == "token" && f.hsm != "" {
			x.Flag = f.hsm
		}
		verb.Bind(flags, x.Of(&f.given))
		annotate(flags, flagHeading, []string{x.Heading}, x.Flag)
	}
	if flags.Lookup("user") != nil {
		once(flags, "user")
	}
}

func reword(flags *pflag.FlagSet, words map[string]string) {
	for name, usage := range words {
		flags.Lookup(name).Usage = usage
	}
}

func (f *optionFlags) acceptRisk(flags *pflag.FlagSet, usage string) {
	flags.StringSliceVar(&f.risks, "accept-risk", nil, usage)
	annotate(flags, flagChoices, enrolling.Risks(f.on), "accept-risk")
}

func (f *optionFlags) read() (enrolling.Options, error) {
	if key := f.given.Key; key.Scheme != "" {
		if err := namesKey(key); err != nil {
			return f.given, err
		}
	}
	for _, risk := range f.risks {
		if !f.given.AcceptRisk(f.on, risk) {
			return f.given, f.unknown(risk)
		}
	}
	return f.given, nil
}

func (f *optionFlags) unknown(risk string) error {
	of := "an enrollment"
	switch {
	case f.on&enrolling.OfRenewal != 0:
		of = "a renewal"
	case f.on&enrolling.OfRequest != 0:
		of = "a request"
	}
	names := enrolling.Risks(f.on)
	for i, name := range names {
		if strings.HasSuffix(name, ":") {
			names[i] += "HOST"
		}
	}
	are, last := "is", len(names)-1
	if last > 0 {
		are = "are"
		names = []string{strings.Join(names[:last], ", "), names[last]}
	}
	return ui.Usagef("--accept-risk: %q is no risk of %s; there %s %s", risk, of, are, strings.Join(names, " and "))
}

package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// optionFlags are the flags of one command that are options of an enrollment, of a request
// or of a key, as the table of options in package enrolling has them.
type optionFlags struct {
	on    enrolling.Commands
	hsm   string // the flag of the token where --token is a bootstrap token
	given enrolling.Options
	texts []func() error // readers of the flags that are more than a word
	risks []string       // the names of risks, as given with --accept-risk
}

// bind adds the flags of commands.
func (f *optionFlags) bind(flags *pflag.FlagSet, on enrolling.Commands) {
	f.on = on
	for _, x := range enrolling.Flags(on) {
		if x.Flag == "token" && f.hsm != "" {
			x.Flag = f.hsm
		}
		switch p := x.In(&f.given).(type) {
		case *string:
			flags.StringVar(p, x.Flag, "", x.Usage)
		case *[]string:
			flags.StringArrayVar(p, x.Flag, nil, x.Usage)
		case *bool:
			flags.BoolVar(p, x.Flag, false, x.Usage)
		case *time.Duration:
			flags.DurationVar(p, x.Flag, 0, x.Usage)
		case *map[string]string:
			list := flags.StringArray(x.Flag, nil, x.Usage)
			f.texts = append(f.texts, func() (err error) {
				*p, err = labels(x.Flag, *list)
				return err
			})
		default:
			text := flags.String(x.Flag, "", x.Usage)
			f.texts = append(f.texts, func() error { return readOption(p, x.Flag, *text) })
		}
		annotate(flags, flagHeading, []string{x.Heading}, x.Flag)
	}
	if flags.Lookup("user") != nil {
		once(flags, "user")
	}
}

// reword gives flags words of a command's own.
func reword(flags *pflag.FlagSet, words map[string]string) {
	for name, usage := range words {
		flags.Lookup(name).Usage = usage
	}
}

// acceptRisk adds the flag for risks that are accepted.
func (f *optionFlags) acceptRisk(flags *pflag.FlagSet, usage string) {
	flags.StringSliceVar(&f.risks, "accept-risk", nil, usage)
	annotate(flags, flagChoices, enrolling.Risks(f.on), "accept-risk")
}

// read returns what was given.
func (f *optionFlags) read() (enrolling.Options, error) {
	for _, read := range f.texts {
		if err := read(); err != nil {
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

// unknown is the error for a risk that the command does not have.
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

// readOption reads the text of a flag into an option, which stays as it is without one.
func readOption(into any, flag, text string) (err error) {
	if text == "" {
		return nil
	}
	switch p := into.(type) {
	case *hsm.URI:
		if flag != "key" {
			*p, err = hsm.ParseURI(text)
			return err
		}
		if *p, err = parseKey(text); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		return nil
	case *hsm.Algorithm:
		*p, err = hsm.ParseAlgorithm(text)
	case *hsm.PINPolicy:
		*p, err = hsm.ParsePINPolicy(text)
	case *hsm.TouchPolicy:
		*p, err = hsm.ParseTouchPolicy(text)
	default:
		return fmt.Errorf("--%s: no flag can be a %T", flag, into)
	}
	if err != nil {
		return &ui.UsageError{Err: fmt.Errorf("--%s: %w", flag, err)}
	}
	return nil
}

// labels reads the labels of a request.
func labels(flag string, list []string) (map[string]string, error) {
	var m map[string]string
	for _, l := range list {
		k, v, ok := strings.Cut(l, "=")
		if !ok || k == "" {
			return nil, ui.Usagef("--%s: %q is not of the form key=value", flag, l)
		}
		if m == nil {
			m = map[string]string{}
		}
		m[k] = v
	}
	return m, nil
}

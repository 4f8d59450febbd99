package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// usage makes a usage error of one about a flag's value that was found before anything was sent.
func usage(err error) error {
	var (
		request *csr.InputError
		field   *discovery.InputError // and ticket's
		already *ui.UsageError
	)
	if err == nil || errors.As(err, &already) {
		return err
	}
	bad := errors.As(err, &request) || errors.As(err, &field)
	for _, target := range []error{bootstraptoken.ErrMalformed, bootstraptoken.ErrInvalid, ticket.ErrMalformed,
		ticket.ErrChecksum, ticket.ErrVersion, enrolling.ErrTicket, desk.ErrNoReason} {
		bad = bad || errors.Is(err, target)
	}
	if bad {
		return &ui.UsageError{Err: err}
	}
	return err
}

// plainly rewords the errors of cobra and pflag.
func plainly(err error) error {
	said := err.Error()
	found := func(pattern string) []string { return regexp.MustCompile(pattern).FindStringSubmatch(said) }
	if m := found(`^required flag\(s\) (.+) not set$`); m != nil {
		names := strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", ")
		if len(names) == 1 {
			return errors.New("--" + names[0] + " is missing")
		}
		return errors.New("--" + strings.Join(names, " and --") + " are missing")
	}
	if m := found(`^if any flags in the group .* none of the others can be; \[(.+)\] were all set$`); m != nil {
		return errors.New("--" + strings.Join(strings.Fields(m[1]), " and --") + " exclude each other")
	}
	if m := found(`^accepts (?:at most )?(\d+) arg\(s\), received (\d+)$`); m != nil && m[1] < m[2] { // single digits
		return errors.New("there are too many arguments")
	}
	if m := found(`^unknown command (".*") for ".*"$`); m != nil {
		return errors.New("unexpected argument " + m[1])
	}
	if m := found(`^flag needs an argument: (?:'.' in )?(-.+)$`); m != nil {
		return errors.New(m[1] + " needs a value")
	}
	if bad := (*pflag.InvalidValueError)(nil); errors.As(err, &bad) {
		return fmt.Errorf("--%s: %w", bad.GetFlag().Name, bad.Unwrap())
	}
	if strings.Contains(said, " arg(s), ") {
		return errors.New("an argument is missing")
	}
	return err
}

package cli

import (
	"errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// usage makes a usage error of one that says what was wrong with a flag's
// value, before anything was sent.
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

package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// DefaultTicketTTL is how long a ticket is good for where nothing else is said.
const DefaultTicketTTL = 4 * time.Hour

// TicketOptions say what ticket to make.
type TicketOptions struct {
	ticket.Terms
	// TTL is how long it is good for, up to [ticket.MaxTTL]; 0 is [DefaultTicketTTL].
	TTL time.Duration
	// Name is the name proposed for the enrollment.
	Name string
}

// IssuedTicket is a ticket that the cluster knows.
type IssuedTicket struct {
	// Text is the ticket: a secret.
	Text    string       `json:"ticket"`
	ID      string       `json:"id"`
	Name    string       `json:"name,omitempty"`
	Server  string       `json:"server"`
	Terms   ticket.Terms `json:"terms"`
	Expires time.Time    `json:"expires"`
	// Unproven says why nobody could join with it from here, "" if the cluster
	// was found by it.
	Unproven string `json:"unproven,omitempty"`
}

// ForSpare are the options for the ticket of a spare token of the same person. There are none if o
// names the token, since the spare has another serial.
func (o TicketOptions) ForSpare() (TicketOptions, error) {
	if o.Serial != "" {
		return TicketOptions{}, hint.With(fmt.Errorf("the spare's ticket cannot name token %s too", o.Serial),
			"make a ticket of its own for the spare token, with the serial of that token")
	}
	if o.Name == "" {
		o.Name = "spare"
	} else {
		o.Name += enrolling.SpareSuffix
	}
	return o, nil
}

// ticketTry is how long a new ticket is tried: the cluster signs its
// cluster-info for a new token within a second or two.
const ticketTry = 10 * time.Second

// Tickets makes tickets, and opens what their users send back.
type Tickets struct {
	env    *env.Env
	access cluster.Access
}

// NewTickets returns those of the clusters that e leads to.
func NewTickets(e *env.Env) Tickets { return Tickets{env: e, access: cluster.Access{Env: e}} }

// Make makes a ticket: a bootstrap token of its own in the cluster of the context.
func (k Tickets) Make(ctx context.Context, kubeContext string, o TicketOptions) (IssuedTicket, error) {
	if o.TTL == 0 {
		o.TTL = DefaultTicketTTL
	}
	if o.TTL < time.Minute || o.TTL > ticket.MaxTTL {
		return IssuedTicket{}, hint.Withf(fmt.Errorf("%w: a ticket for %s", bootstraptoken.ErrInvalid, span.Of(o.TTL)),
			"choose a time from 1 min to %s", span.Of(ticket.MaxTTL))
	}
	if err := (csr.Subject{User: o.User, Groups: o.Groups}).Validate(cmp.Or(o.Signer, csr.ClientSigner)); err != nil {
		return IssuedTicket{}, err
	}
	if o.Lifetime != 0 && o.Lifetime < csr.MinExpiration {
		return IssuedTicket{}, hint.With(
			fmt.Errorf("%w: a certificate for %s", bootstraptoken.ErrInvalid, span.Of(o.Lifetime)),
			"choose 10m or longer: Kubernetes signs nothing shorter",
		)
	}
	at, err := k.access.Verified(ctx, kubeContext)
	if err != nil {
		return IssuedTicket{}, err
	}
	pins, err := clusterPins(at.Server, at.CAData)
	if err != nil {
		return IssuedTicket{}, err
	}
	t := ticket.Ticket{Terms: o.Terms, Name: o.Name, Server: at.Server, Pins: pins}
	if t.Token, err = bootstraptoken.Generate(); err != nil {
		return IssuedTicket{}, err
	}
	defer t.Wipe()
	if t.Expires, err = bootstraptoken.ExpiresIn(time.Now(), o.TTL); err != nil {
		return IssuedTicket{}, err
	}
	record := bootstraptoken.Record{Token: t.Token, Description: o.Description(), Expires: t.Expires,
		Usages: bootstraptoken.KnownUsages(), Groups: o.TokenGroups()}
	if err := record.Validate(); err != nil {
		return IssuedTicket{}, err
	}
	issued := IssuedTicket{ID: t.Token.ID(), Name: t.Name, Server: t.Server, Terms: t.Terms, Expires: t.Expires}
	if issued.Text, err = t.Reveal(); err != nil {
		return IssuedTicket{}, err
	}
	client, err := k.access.BootstrapTokens(ctx, kubeContext)
	if err != nil {
		return IssuedTicket{}, err
	}
	if err := client.Create(ctx, record); err != nil {
		left := notMade(context.WithoutCancel(ctx), client, issued.ID, err)
		return IssuedTicket{}, hint.With(errors.Join(err, left), cmp.Or(hint.Of(left), hint.Of(err)))
	}
	// Many clusters show no cluster-info, or sign none: better told here than there.
	_, err = discovery.Discover(ctx, discovery.Options{Limits: discovery.Limits{Timeout: ticketTry}, Endpoint: t.Server,
		Token: t.Token, Pins: t.Pins})
	if err != nil {
		issued.Unproven = err.Error()
	}
	return issued, nil
}

// notMade deletes a ticket that the cluster may know all the same, as its answer was lost.
func notMade(ctx context.Context, client *bootstraptoken.Client, id string, why error) error {
	if !bootstraptoken.MayHaveArrived(why) {
		return nil
	}
	if err := client.Delete(ctx, id); err != nil && !errors.Is(err, bootstraptoken.ErrNotFound) {
		return hint.Withf(fmt.Errorf("the ticket %s may exist in the cluster: %w", id, err),
			"when the cluster answers again: `kubehsm bootstrap-token delete %s`", id)
	}
	return nil
}

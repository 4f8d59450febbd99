package desk

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// lookAhead bounds the look at whether a ticket could work.
const lookAhead = 5 * time.Second

// Obstacles says, in clauses, why a ticket for requests to signer ("" is the one for clients of
// the API server) could not work yet, as far as that can be seen from here; none is the good
// answer.
func (k Tickets) Obstacles(ctx context.Context, kubeContext, signer string) ([]string, error) {
	at, err := k.access.Verified(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	client, err := k.access.Client(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookAhead)
	defer cancel()
	var all []string
	switch err := discovery.Published(ctx, at); {
	case errors.Is(err, discovery.ErrUnreachable):
		all = append(all, "the cluster did not say whether anybody can join with a ticket: "+err.Error())
	case errors.Is(err, discovery.ErrAnonymousOff):
		all = append(all, "nobody can join with a ticket: "+err.Error()+": use `kubehsm roster line`, which does not need that")
	case err != nil:
		all = append(all, "nobody can join with a ticket: "+err.Error()+": publish cluster-info with "+
			"`kubehsm rbac print --cluster-info | kubectl apply -f -`, or use `kubehsm roster line`, which does not need it")
	}
	// As the cluster will take the ticket's token for.
	filer := csr.Subject{User: "system:bootstrap:" + exampleID, Groups: []string{"system:bootstrappers", ticket.Group}}
	if may, err := client.Rights().MayFile(ctx, filer); err == nil && !may { // a filer who may not ask does not know
		all = append(all, "the cluster lets no ticket file a request: have a cluster admin run `kubehsm rbac print | kubectl apply -f -`")
	}
	var forbidden *csr.ForbiddenError
	err = request.NewRequests(k.env).CheckDecider(ctx, kubeContext, cmp.Or(signer, csr.ClientSigner))
	if errors.As(err, &forbidden) {
		all = append(all, "you may not approve the resulting request: somebody else has to")
	}
	return all, nil
}

// exampleID is the ID of a token that no cluster has.
const exampleID = "000000"

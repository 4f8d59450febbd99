package desk

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	libcluster "github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// ErrNoTokenSignIn: the cluster does not accept bootstrap tokens.
var ErrNoTokenSignIn = errors.New("the cluster does not accept bootstrap tokens")

// The time limits of a trial: the cluster signs cluster-info for a new token, and signs in with it, within a
// second or two.
const (
	trialTTL   = time.Minute
	trialPause = 250 * time.Millisecond
)

// Try is [Tickets.Hindered] with what only a trial shows: whether the cluster signs its cluster-info, and signs
// in with bootstrap tokens. It makes a token that can only file requests, and deletes it; one that cannot be
// deleted ends after a minute.
func (k Tickets) Try(ctx context.Context, kubeContext string) (against []string, err error) {
	against = k.Hindered(ctx, kubeContext)
	at, err := k.access.Verified(ctx, kubeContext)
	if err != nil {
		return against, err
	}
	r := bootstraptoken.Record{Description: "kubehsm: a trial", Usages: bootstraptoken.KnownUsages(),
		Groups: []string{ticket.Group}}
	if r.Token, err = bootstraptoken.Generate(); err != nil {
		return against, err
	}
	defer r.Token.Wipe()
	if r.Expires, err = bootstraptoken.ExpiresIn(time.Now(), trialTTL); err != nil {
		return against, err
	}
	client, err := k.access.BootstrapTokens(ctx, kubeContext)
	if err != nil {
		return against, err
	}
	if err := client.Create(ctx, r); err != nil {
		return against, err
	}
	defer func() { err = errors.Join(err, client.Delete(context.WithoutCancel(ctx), r.Token.ID())) }()
	unsigned, err := signed(ctx, at, r.Token, ticketTry)
	if err != nil {
		return against, err
	}
	if unsigned != nil && discovery.Published(ctx, at) == nil { // else it is said already
		against = append(against, fmt.Sprintf("nobody can join with a ticket: %v: the controller bootstrapsigner may "+
			"be off; `kubehsm roster line --self-contained` needs no signature", unsigned))
	}
	if err := signsIn(ctx, at, r.Token, lookAhead); errors.Is(err, ErrNoTokenSignIn) {
		against = append(against, err.Error()+": its API server runs without --enable-bootstrap-token-auth; "+
			"`kubehsm roster line --file-only` needs no bootstrap token")
	} else if err != nil {
		return against, err
	}
	return against, nil
}

// signed says why a computer that does not know the cluster cannot find it with the token, nil if it can.
func signed(ctx context.Context, at libcluster.Cluster, token bootstraptoken.Token, patience time.Duration) (
	unsigned, err error) {
	pins, err := clusterPins(at.Server, at.CAData)
	if err != nil {
		return nil, err
	}
	_, unsigned = discovery.Discover(ctx, discovery.Options{Limits: discovery.Limits{Timeout: patience},
		Endpoint: at.Server, Token: token, Pins: pins})
	return unsigned, ctx.Err()
}

// signsIn tries to sign in with a token that the cluster has just been told of. The error is [ErrNoTokenSignIn]
// if it is refused for as long as patience.
func signsIn(ctx context.Context, at libcluster.Cluster, token bootstraptoken.Token, patience time.Duration) error {
	config := cluster.Anonymous(at)
	config.BearerToken = token.Reveal()
	c, err := newObjects(config)
	if err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; {
		// Everybody may read the version; a token that is not known is refused even that.
		_, err := c.do(ctx, "sign in with a new bootstrap token", c.rest.Get().AbsPath("/version"))
		switch {
		case err == nil, apierrors.IsForbidden(err):
			return nil
		case !apierrors.IsUnauthorized(err):
			return err
		case time.Now().After(end):
			return ErrNoTokenSignIn
		}
		select {
		case <-time.After(trialPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

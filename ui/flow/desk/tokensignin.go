package desk

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	libcluster "github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// ErrNoTokenSignIn: the cluster does not accept bootstrap tokens.
var ErrNoTokenSignIn = errors.New("the cluster does not accept bootstrap tokens")

// signInPause is between two tries to sign in with a new token: the cluster knows it within a second or two.
const signInPause = 250 * time.Millisecond

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
		case <-time.After(signInPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

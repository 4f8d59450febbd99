package request

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// ErrNotListed: the roster of the cluster does not give a token to anybody.
var ErrNotListed = errors.New("the roster names no owner for it")

// OwnerOf returns whom the roster of a cluster gives the token with a serial number to, and their groups; nil if
// the cluster has no roster, or the credential in config may not read it. Errors are [ErrNotListed] and those of
// the API server.
func OwnerOf(ctx context.Context, config *rest.Config, serial string) (*csr.Subject, error) {
	if strings.Trim(serial, "0123456789") != "" { // a roster has numbers alone
		return nil, nil
	}
	c, err := cluster.ApproverAPI(config)
	if err != nil {
		return nil, err
	}
	token := &clusterapi.HardwareToken{}
	err = c.Get().Namespace(clusterapi.Namespace).Resource("hardwaretokens").Name(serial).Do(ctx).Into(token)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err) && !served(err, "hardwaretokens"):
		return nil, nil
	case apierrors.IsNotFound(err), err == nil && token.Spec.Owner == "":
		return nil, hint.With(fmt.Errorf("token %s: %w", serial, ErrNotListed),
			"insert the token that you were given, or tell the help desk its serial number")
	case err != nil:
		return nil, apierror.Of("look up the token "+serial+" on the roster", config.Host, err)
	}
	return &csr.Subject{User: token.Spec.Owner, Groups: token.Spec.Groups}, nil
}

package enroll

import (
	"context"
	"errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// forecast says what is likely to become of the request that an enrollment will
// file; nil once there is one, and for a join, whose cluster is not known yet.
func (n Enroller) forecast(ctx context.Context, j *enrolling.Progress) ([]csr.Point, error) {
	if j.Filed() || j.Options.Join != nil {
		return nil, nil
	}
	client, err := NewEnroller(n.env.Quiet()).filer(ctx, j)
	if err != nil {
		return nil, err
	}
	return foresee(ctx, client, j)
}

// foresee asks for the forecast of the request that j will file.
func foresee(ctx context.Context, client *csr.Client, j *enrolling.Progress) ([]csr.Point, error) {
	return client.Forecast(ctx, j.Prospect(cluster.AcceptedBy(ctx, j.Cluster)))
}

// preflight stops an enrollment before a key is made for a request that cannot
// be filed, cannot be approved as was asked for, or cannot succeed; the last only
// if that was not accepted.
func (r *attempt) preflight(ctx context.Context) error {
	if r.record.Filed() {
		return nil
	}
	o := r.record.Options
	makes := r.record.Makes()
	if o.AcceptForecast && !makes {
		return nil
	}
	client, err := r.client(ctx)
	if err != nil {
		return err
	}
	if makes {
		change, _, err := planEntry(ctx, r.env, r.record)
		if err == nil {
			err = change.Writable() // the kubeconfig is written last, when all else is made
		}
		if err != nil {
			return noKeyYet(err)
		}
		if err := reach(ctx, client); err != nil {
			return noKeyYet(r.record.ExpiredToken(err))
		}
		if o.ApproveWith != "" {
			if err := request.NewRequests(r.env).CheckApprover(ctx, o.ApproveWith, o.SignerName); err != nil {
				return noKeyYet(err)
			}
		}
	}
	if o.AcceptForecast {
		return nil
	}
	points, err := foresee(ctx, client, r.record)
	if err != nil {
		return err
	}
	return request.ForecastRefusal(points)
}

// reach tells whether the API server answers, and knows who asks.
func reach(ctx context.Context, client *csr.Client) error {
	_, err := client.Rights().WhoAmI(ctx)
	if errors.Is(err, apierror.ErrUnreachable) || errors.Is(err, apierror.ErrUnauthorized) || ctx.Err() != nil {
		return err
	}
	return nil // a forecast without the name of the requester is good enough
}

// noKeyYet says how a key is made all the same.
func noKeyYet(err error) error {
	const other = "no key was made yet; to make one without the cluster: `kubehsm key generate`, and later `kubehsm " +
		"enroll --key`"
	if hint := hinting.Of(err); hint != "" {
		return hinting.With(err, hint+"; "+other)
	}
	return hinting.With(err, other)
}

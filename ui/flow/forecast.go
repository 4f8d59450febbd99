package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// ErrForecast: the cluster is certain to refuse the request.
var ErrForecast = errors.New("the request cannot succeed")

// ForecastRefusal is [ErrForecast] with the points that stand in the way, or nil.
func ForecastRefusal(points []csr.Point) error {
	refused := csr.Refused(points)
	if len(refused) == 0 {
		return nil
	}
	why := make([]string, len(refused))
	for i, p := range refused {
		why[i] = p.Reason
		if p.Evidence != "" {
			why[i] += " (" + p.Evidence + ")"
		}
	}
	return hsm.WithHint(fmt.Errorf("%w: %s", ErrForecast, strings.Join(why, "; ")),
		"ask for what the signer signs, or for another signer with --signer-name; --accept-risk=forecast files the request anyway")
}

// Forecast says what is likely to become of the request that o
// describes. It asks for no PIN and changes nothing. Without a key the points
// about it are left out.
func (f Own) Forecast(ctx context.Context, o RequestOptions) ([]csr.Point, error) {
	client, err := f.access.Client(ctx, o.Context)
	if err != nil {
		return nil, err
	}
	p := csr.Prospect{SignerName: o.SignerName, Expiration: o.Expiration}
	var info hsm.TokenInfo
	if o.Key.Scheme != "" {
		if info, err = f.lookAtKey(ctx, o, &p); err != nil {
			return nil, err
		}
	}
	if o, err = o.filled(info); err != nil {
		return nil, err
	}
	p.Subject = csr.Subject{User: o.User, Groups: o.Groups}
	if to, err := f.access.Verified(ctx, o.Context); err == nil { // a cluster that is not verified is not asked
		p.Accepted = acceptedBy(ctx, to)
	}
	return client.Forecast(ctx, p)
}

// lookAtKey reads of the key what can be read without a PIN.
func (f Own) lookAtKey(ctx context.Context, o RequestOptions, p *csr.Prospect) (hsm.TokenInfo, error) {
	t, err := f.env.Drivers.Open(ctx, o.Key)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	defer t.Close()
	slot, err := t.Slot(ctx, o.Key)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	if slot.Key != nil {
		p.Key = slot.Key.Public
	}
	info, err := t.Info(ctx)
	p.Extension = info.Can.Attest && !o.NoAttestation
	return info, err
}

// forecast says what is likely to become of the request that an enrolment will
// file; nil once there is one, and for a join, whose cluster is not known yet.
func (n Enroller) forecast(ctx context.Context, j *enrolling.Progress) ([]csr.Point, error) {
	if j.Filed() || j.Options.Join != nil {
		return nil, nil
	}
	quiet := *n.env
	quiet.Prompter = nil // a look asks for no PIN
	client, err := quiet.access().Client(ctx, j.Options.Context)
	if err != nil {
		return nil, err
	}
	return client.Forecast(ctx, j.Prospect(acceptedBy(ctx, j.Cluster)))
}

// acceptedBy asks a cluster which client certificates it accepts, without a
// credential; nil if it does not tell.
func acceptedBy(ctx context.Context, c enrollment.Cluster) *csr.Accepted {
	a, err := csr.AskAccepted(ctx, Transport(c, moveTimeout), c.Server)
	if err != nil {
		return nil // the steps that need the cluster say why
	}
	return a
}

// refuseVain stops an enrolment before a key is made for a request that cannot
// be filed, cannot be approved as was asked for, or cannot succeed; the last only
// if that was not accepted.
func (r *enrolment) refuseVain(ctx context.Context) error {
	if r.j.Filed() {
		return nil
	}
	o := r.j.Options
	makes := r.j.KeyHash == "" && o.Key.Scheme == ""
	if o.AcceptForecast && !makes {
		return nil
	}
	client, err := r.client(ctx)
	if err != nil {
		return err
	}
	if makes {
		if err := reach(ctx, client); err != nil {
			return noKeyYet(r.j.ExpiredToken(err))
		}
		if o.ApproveWith != "" {
			if err := NewRequests(&r.env.Env).CheckApprover(ctx, o.ApproveWith, o.SignerName); err != nil {
				return noKeyYet(err)
			}
		}
	}
	if o.AcceptForecast {
		return nil
	}
	points, err := client.Forecast(ctx, r.j.Prospect(acceptedBy(ctx, r.j.Cluster)))
	if err != nil {
		return err
	}
	return ForecastRefusal(points)
}

// reach tells whether the API server answers, and knows who asks.
func reach(ctx context.Context, client *csr.Client) error {
	_, err := client.WhoAmI(ctx)
	if errors.Is(err, csr.ErrUnreachable) || errors.Is(err, csr.ErrUnauthorized) || ctx.Err() != nil {
		return err
	}
	return nil // that it cannot tell who asks is no matter
}

// noKeyYet says how a key is made all the same.
func noKeyYet(err error) error {
	const other = "no key was made yet; to make one without the cluster: `kubehsm key generate`, and later `kubehsm enroll --key`"
	if hint := hsm.Hint(err); hint != "" {
		return hsm.WithHint(err, hint+"; "+other)
	}
	return hsm.WithHint(err, other)
}

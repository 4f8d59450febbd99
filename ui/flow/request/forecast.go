package request

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
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
	return hint.With(fmt.Errorf("%w: %s", ErrForecast, strings.Join(why, "; ")), "ask for what the signer signs, or for another signer with --signer-name; --accept-risk=forecast files the request anyway")
}

// Forecast says what is likely to become of the request that o
// describes. It asks for no PIN and changes nothing. Without a key the points
// about it are left out.
func (f Own) Forecast(ctx context.Context, o Options) ([]csr.Point, error) {
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
		p.Accepted = cluster.AcceptedBy(ctx, to)
	}
	return client.Forecast(ctx, p)
}

// lookAtKey reads of the key what can be read without a PIN.
func (f Own) lookAtKey(ctx context.Context, o Options, p *csr.Prospect) (hsm.TokenInfo, error) {
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

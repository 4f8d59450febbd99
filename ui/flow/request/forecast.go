package request

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
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
	return hint.With(fmt.Errorf("%w: %s", ErrForecast, strings.Join(why, "; ")),
		"ask for what the signer signs, or for another signer with --signer-name; "+
			"--accept-risk=forecast files the request anyway")
}

// Forecast says what is likely to become of the request that o
// describes. It asks for no PIN and changes nothing. Without a key the points
// about it are left out.
func (f Own) Forecast(ctx context.Context, o enrolling.Options) ([]csr.Point, error) {
	client, err := f.access.Client(ctx, o.Context)
	if err != nil {
		return nil, err
	}
	var info hsm.TokenInfo
	var key crypto.PublicKey
	if o.Key.Scheme != "" {
		if info, key, err = f.lookAtKey(ctx, o.Key); err != nil {
			return nil, err
		}
	}
	if err := o.FillNames(info); err != nil {
		return nil, err
	}
	p := o.Prospect(info.Can.Attest)
	p.Key = key
	if to, err := f.access.Verified(ctx, o.Context); err == nil { // a cluster that is not verified is not asked
		p.Accepted = cluster.AcceptedBy(ctx, to)
	}
	return client.Forecast(ctx, p)
}

// lookAtKey reads of the key what can be read without a PIN; nil if there is none.
func (f Own) lookAtKey(ctx context.Context, u hsm.URI) (info hsm.TokenInfo, key crypto.PublicKey, err error) {
	t, err := f.env.Drivers.Open(ctx, u)
	if err != nil {
		return info, nil, err
	}
	defer t.Close()
	slot, err := t.Slot(ctx, u)
	if err != nil {
		return info, nil, err
	}
	if slot.Key != nil {
		key = slot.Key.Public
	}
	info, err = t.Info(ctx)
	return info, key, err
}

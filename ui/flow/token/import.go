package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Import writes the leaf of a PEM chain beside the key that u names.
// If name is not empty, the chain also becomes the certificate of the
// unfinished enrollment of that name, for requests that an admin carried.
func (k Keys) Import(ctx context.Context, u hsm.URI, name string, pem []byte, p hsm.Prompter) (*csr.Certificate,
	error) {
	cert, err := csr.ParseCertificate(pem)
	if err != nil {
		return nil, hint.With(err, "give a PEM file with the certificate first and its chain after it")
	}
	var j *enrolling.Progress
	if name != "" {
		release, err := k.Env.Lock(ctx, name) // a run that waits would write over it
		if err != nil {
			return nil, err
		}
		defer release()
		if j, err = enrolling.NewStore(k.Env).Load(name); err != nil {
			return nil, err
		}
		if u.Scheme == "" {
			u = j.Request.Key
		}
	}
	if u.Scheme == "" {
		return nil, errors.New("neither a key nor an unfinished enrollment is named")
	}
	t, err := k.Env.Drivers.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	slot, err := t.Slot(ctx, u)
	if err != nil {
		return nil, err
	}
	if slot.Key == nil {
		return nil, fmt.Errorf("%s: %w", slot.URI, hsm.ErrNoKey)
	}
	if err := cert.Check(slot.Key.Public, true, time.Time{}); err != nil {
		return nil, err
	}
	if j != nil {
		if err := hasKey(j, slot); err != nil {
			return nil, err
		}
	}
	p = ask.With(p, hsm.Purpose{Cluster: name, Action: "store the certificate"})
	err = t.StoreCertificate(ctx, slot.URI, cert.Leaf, p)
	if j != nil && errors.Is(err, hsm.ErrUnsupported) {
		err = nil // the enrollment keeps it in the state folder
	}
	if err != nil {
		return nil, err
	}
	if j != nil {
		j.Certificate = cert.PEM
		if err := enrolling.NewStore(k.Env).Save(j); err != nil {
			return nil, err
		}
	}
	return cert, nil
}

// hasKey refuses a slot whose key is not the enrollment's: with the certificate
// of another key it could not be finished any more.
func hasKey(j *enrolling.Progress, slot hsm.Slot) error {
	hash, err := hsm.Fingerprint(slot.Key.Public)
	if err != nil {
		return err
	}
	if hash != j.Request.KeyHash {
		return hint.Withf(
			fmt.Errorf("%s holds another key than the enrollment %q: %w", slot.URI, j.Options.Name, hsm.ErrKeyMismatch),
			"leave --key out, or --enrollment")
	}
	return nil
}

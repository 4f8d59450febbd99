package flow

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Slot finds the one slot that u names.
func (e *Env) Slot(ctx context.Context, u hsm.URI) (hsm.Slot, error) {
	t, err := e.Drivers.Open(ctx, u)
	if err != nil {
		return hsm.Slot{}, err
	}
	defer t.Close()
	return t.Slot(ctx, u)
}

// Certificate returns the certificate in the slot that u names.
func (e *Env) Certificate(ctx context.Context, u hsm.URI) (*x509.Certificate, error) {
	s, err := e.Slot(ctx, u)
	if err != nil {
		return nil, err
	}
	if s.Certificate == nil {
		return nil, hsm.WithHint(fmt.Errorf("%s: %w", s.URI, hsm.ErrNoCertificate),
			"`kubehsm csr create` asks a cluster for one")
	}
	return s.Certificate, nil
}

// ImportCertificate writes the leaf of a PEM chain beside the key that u names.
// If name is not empty, the chain also becomes the certificate of the
// unfinished enrolment of that name, for requests that an admin carried.
func (e *Env) ImportCertificate(ctx context.Context, u hsm.URI, name string, pem []byte, p hsm.Prompter) (*csr.Certificate, error) {
	cert, err := csr.ParseCertificate(pem)
	if err != nil {
		return nil, hsm.WithHint(err, "give a PEM file with the certificate first and its chain after it")
	}
	var j *enrolling.Progress
	if name != "" {
		release, err := e.Lock(ctx, name) // a run that waits would write over it
		if err != nil {
			return nil, err
		}
		defer release()
		if j, err = enrolling.NewStore(&e.Env).Load(name); err != nil {
			return nil, err
		}
		if u.Scheme == "" {
			u = j.Key
		}
	}
	if u.Scheme == "" {
		return nil, errors.New("neither a key nor an unfinished enrolment is named")
	}
	t, err := e.Drivers.Open(ctx, u)
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
		err = nil // the enrolment keeps it in the state folder
	}
	if err != nil {
		return nil, err
	}
	if j != nil {
		j.Certificate = cert.PEM
		if err := enrolling.NewStore(&e.Env).Save(j); err != nil {
			return nil, err
		}
	}
	return cert, nil
}

// hasKey refuses a slot whose key is not the enrolment's: with the certificate
// of another key it could not be finished any more.
func hasKey(j *enrolling.Progress, slot hsm.Slot) error {
	hash, err := hsm.Fingerprint(slot.Key.Public)
	if err != nil {
		return err
	}
	if hash != j.KeyHash {
		return hsm.Hintf(fmt.Errorf("%s holds another key than the enrolment %q: %w", slot.URI, j.Options.Name, hsm.ErrKeyMismatch),
			"leave --key out, or --enrollment")
	}
	return nil
}

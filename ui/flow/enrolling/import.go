package enrolling

import (
	"context"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// Import makes a PEM chain the certificate of the unfinished enrollment of that name, whose request
// an admin carried. The enrollment goes on with it.
func Import(ctx context.Context, e *env.Env, name string, pem []byte) (*csr.Certificate, error) {
	cert, err := csr.ParseCertificate(pem)
	if err != nil {
		return nil, hint.With(err, "give a PEM file with the certificate first and its chain after it")
	}
	release, err := e.Lock(ctx, name) // a run that waits would write over it
	if err != nil {
		return nil, err
	}
	defer release()
	j, err := NewStore(e).Load(name)
	if err != nil {
		return nil, err
	}
	if err := cert.Check(nil, true, time.Time{}); err != nil {
		return nil, err
	}
	hash, err := hsm.Fingerprint(cert.Leaf.PublicKey)
	if err != nil {
		return nil, err
	}
	if hash != j.Request.KeyHash { // with it the enrollment could not be finished any more
		return nil, hint.With(fmt.Errorf("the certificate is for another key than that of the enrollment %q: %w", name,
			hsm.ErrKeyMismatch), "give the certificate of the request that this enrollment made")
	}
	j.Certificate = cert.PEM
	return cert, NewStore(e).Save(j)
}

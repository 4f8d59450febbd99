//go:build unix

package worker

import (
	"context"
	"crypto/x509"

	"github.com/kubehsm/kubehsm/hsm"
)

// Generate implements [hsm.Token].
func (t *workerToken) Generate(ctx context.Context, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	q := generateRequest{asking{p != nil}, o}
	return slot(callWorker[slotAnswer](ctx, t.peer, opTokenGenerate, q, t.of(makeTimeout, p)))
}

// StoreCertificate implements [hsm.Token].
func (t *workerToken) StoreCertificate(ctx context.Context, u hsm.URI, cert *x509.Certificate, p hsm.Prompter) error {
	q := storeRequest{named{u}, asking{p != nil}, cert.Raw}
	_, err := callWorker[nothing](ctx, t.peer, opTokenStore, q, t.of(signTimeout, p))
	return err
}

// Delete implements [hsm.Token].
func (t *workerToken) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	_, err := callWorker[nothing](ctx, t.peer, opTokenDelete, useRequest{named{u}, asking{p != nil}},
		t.of(signTimeout, p))
	return err
}

// Attest implements [hsm.Administration].
func (t *workerToken) Attest(ctx context.Context, u hsm.URI) (hsm.Attestation, error) {
	out, err := callWorker[attestAnswer](ctx, t.peer, opTokenAttest, named{u}, t.of(signTimeout, nil))
	return out.Attestation, err
}

// Details implements [hsm.Administration].
func (t *workerToken) Details(ctx context.Context) (hsm.Details, error) {
	out, err := callWorker[detailsAnswer](ctx, t.peer, opTokenDetails, nothing{}, t.of(infoTimeout, nil))
	return out.Details, err
}

// ChangePIN implements [hsm.Administration].
func (t *workerToken) ChangePIN(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	_, err := callWorker[nothing](ctx, t.peer, opTokenChangePIN, pinRequest{asking{p != nil}, kind},
		t.of(signTimeout, p))
	return err
}

// Unblock implements [hsm.Administration].
func (t *workerToken) Unblock(ctx context.Context, p hsm.Prompter) error {
	_, err := callWorker[nothing](ctx, t.peer, opTokenUnblock, asking{p != nil}, t.of(signTimeout, p))
	return err
}

// Reset implements [hsm.Administration].
func (t *workerToken) Reset(ctx context.Context, p hsm.Prompter) error {
	_, err := callWorker[nothing](ctx, t.peer, opTokenReset, asking{p != nil}, t.of(signTimeout, p))
	return err
}

// SetManagementKey implements [hsm.Administration].
func (t *workerToken) SetManagementKey(ctx context.Context, o hsm.ManagementKeyOptions, p hsm.Prompter) (*hsm.Secret,
	error) {
	q := managementKeyRequest{asking: asking{p != nil}, Algorithm: o.Algorithm, Given: o.Key != nil, Protect: o.Protect,
		Touch: o.Touch}
	var key *hsm.Secret
	c := t.of(signTimeout, p)
	c.secret = o.Key
	c.received = func(s *hsm.Secret) {
		key.Zero()
		key = s
	}
	_, err := callWorker[nothing](ctx, t.peer, opTokenManagementKey, q, c)
	return key, err
}

//go:build unix

package worker

import (
	"context"
	"crypto/x509"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
)

// administer does what changes a token, or describes it further; ok tells that r is of
// that kind.
func (s *workerSession) administer(ctx context.Context, t hsm.Token, r link.Received) (out any, err error, ok bool) {
	switch r.Op {
	case opTokenGenerate:
		out, err = handle(ctx, r, func(ctx context.Context, q generateRequest) (slotAnswer, error) {
			return packed(t.Generate(ctx, q.Options, s.prompter(q.asking)))
		})
	case opTokenStore:
		out, err = handle(ctx, r, func(ctx context.Context, q storeRequest) (nothing, error) {
			cert, err := x509.ParseCertificate(q.Certificate)
			if err != nil {
				return nothing{}, err
			}
			return nothing{}, t.StoreCertificate(ctx, q.URI, cert, s.prompter(q.asking))
		})
	case opTokenDelete:
		out, err = handle(ctx, r, func(ctx context.Context, q useRequest) (nothing, error) {
			return nothing{}, t.Delete(ctx, q.URI, s.prompter(q.asking))
		})
	case opTokenAttest:
		out, err = handle(ctx, r, func(ctx context.Context, q named) (a attestAnswer, err error) {
			a.Attestation, err = t.Attest(ctx, q.URI)
			return a, err
		})
	case opTokenDetails:
		out, err = handle(ctx, r, func(ctx context.Context, _ nothing) (d detailsAnswer, err error) {
			d.Details, err = t.Details(ctx)
			return d, err
		})
	default:
		return s.secrets(ctx, t, r)
	}
	return out, err, true
}

// secrets does what changes the secrets of a token.
func (s *workerSession) secrets(ctx context.Context, t hsm.Token, r link.Received) (out any, err error, ok bool) {
	switch r.Op {
	case opTokenChangePIN:
		out, err = handle(ctx, r, func(ctx context.Context, q pinRequest) (nothing, error) {
			return nothing{}, t.ChangePIN(ctx, q.Kind, s.prompter(q.asking))
		})
	case opTokenUnblock:
		out, err = handle(ctx, r, func(ctx context.Context, q asking) (nothing, error) {
			return nothing{}, t.Unblock(ctx, s.prompter(q))
		})
	case opTokenReset:
		out, err = handle(ctx, r, func(ctx context.Context, q asking) (nothing, error) {
			return nothing{}, t.Reset(ctx, s.prompter(q))
		})
	case opTokenManagementKey:
		out, err = handle(ctx, r, func(ctx context.Context, q managementKeyRequest) (nothing, error) {
			return nothing{}, s.setManagementKey(ctx, t, q)
		})
	default:
		return nil, nil, false
	}
	return out, err, true
}

// setManagementKey replaces the management key, and sends the new one, which may be in
// force in spite of an error.
func (s *workerSession) setManagementKey(ctx context.Context, t hsm.Token, q managementKeyRequest) error {
	o := hsm.ManagementKeyOptions{Algorithm: q.Algorithm, Protect: q.Protect, Touch: q.Touch}
	if q.Given {
		key, err := s.server.Secret(ctx)
		if err != nil {
			return err
		}
		defer key.Zero()
		o.Key = key
	}
	key, err := t.SetManagementKey(ctx, o, s.prompter(q.asking))
	defer key.Zero()
	if key != nil {
		if serr := s.server.AnswerSecret(key.Bytes()); serr != nil {
			return serr
		}
	}
	return err
}

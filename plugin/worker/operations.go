//go:build unix

package worker

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// asked is an operation that was asked for.
type asked struct {
	arguments
	session *workerSession
	handle  int          // number of the token
	token   hsm.Token    // nil if no token of that number is open
	person  hsm.Prompter // person who can be asked, or nil
}

// operation is what a worker can be asked for.
type operation struct {
	limit  time.Duration // how long it may take, see [peer.ask]; 0 is without end
	source bool          // it is not about a token that is open
	quiet  bool          // nobody is shown that it is waited for
	do     func(ctx context.Context, a asked) (results, error)
}

// operations are all there are, by the names that cross to the worker.
var operations = map[string]operation{
	"survey":      {limit: surveyTimeout, source: true, do: survey},
	"initialize":  {limit: makeTimeout, source: true, do: initialize},
	"watch":       {source: true, quiet: true, do: watchTokens}, // ends when tokens may have come or gone
	"token-open":  {limit: openTimeout, source: true, do: openToken},
	"token-alive": {source: true, quiet: true, do: alive},
	"token-close": {limit: lockTimeout, do: closeToken},
	"token-info": {limit: infoTimeout, do: func(ctx context.Context, a asked) (results, error) {
		info, err := a.token.Info(ctx)
		return results{Info: &info}, err
	}},
	"token-slot": {limit: infoTimeout, do: func(ctx context.Context, a asked) (results, error) {
		return packed(a.token.Slot(ctx, a.URI))
	}},
	"token-slots": {limit: infoTimeout, do: func(ctx context.Context, a asked) (results, error) {
		return a.session.look.slotsFrom(ctx, a) // a part at a time
	}},
	"token-unlock": {limit: signTimeout, do: func(ctx context.Context, a asked) (results, error) {
		return results{}, a.token.Unlock(ctx, a.person)
	}},
	"token-state": {quiet: true, do: func(_ context.Context, a asked) (results, error) {
		return results{Unlocked: a.token.Unlocked()}, nil
	}},
	"token-lock": {limit: lockTimeout, do: func(_ context.Context, a asked) (results, error) {
		return results{}, a.token.Lock()
	}},
	"token-removed": {quiet: true, do: func(ctx context.Context, a asked) (results, error) {
		return results{}, a.session.worker.tokens.Removed(ctx, a.token) // ends when the token has gone
	}},
	"token-signer": {limit: signTimeout, do: prepare}, // signatures follow on the same connection
	"token-sign":   {limit: signTimeout, do: sign},
	"token-generate": {limit: makeTimeout, do: func(ctx context.Context, a asked) (results, error) {
		return packed(a.token.Generate(ctx, a.Generate, a.person))
	}},
	"token-store": {limit: signTimeout, do: func(ctx context.Context, a asked) (results, error) {
		cert, err := x509.ParseCertificate(a.Certificate)
		if err != nil {
			return results{}, err
		}
		return results{}, a.token.StoreCertificate(ctx, a.URI, cert, a.person)
	}},
	"token-delete": {limit: signTimeout, do: func(ctx context.Context, a asked) (results, error) {
		return results{}, a.token.Delete(ctx, a.URI, a.person)
	}},
	"token-attest": {limit: signTimeout, do: func(ctx context.Context, a asked) (results, error) {
		attestation, err := a.token.Attest(ctx, a.URI)
		return results{Attestation: attestation}, err
	}},
	"token-details": {limit: infoTimeout, do: func(ctx context.Context, a asked) (results, error) {
		d, err := a.token.Details(ctx)
		return results{Details: d}, err
	}},
	"token-change-pin": {limit: signTimeout, do: func(ctx context.Context, a asked) (results, error) {
		return results{}, a.token.ChangePIN(ctx, a.Kind, a.person)
	}},
	"token-unblock": {limit: signTimeout, do: func(ctx context.Context, a asked) (results, error) {
		return results{}, a.token.Unblock(ctx, a.person)
	}},
	"token-reset": {limit: signTimeout, do: func(ctx context.Context, a asked) (results, error) {
		return results{}, a.token.Reset(ctx, a.person)
	}},
	"token-management-key": {limit: signTimeout, do: setManagementKey},
}

// packed is a slot fit to be sent.
func packed(s hsm.Slot, err error) (results, error) {
	if err != nil {
		return results{}, err
	}
	p, err := packSlot(s)
	return results{Slot: p}, err
}

// alive gives a sign of life.
func alive(context.Context, asked) (results, error) {
	return results{}, nil
}

// openToken opens a token, which gets the next handle.
func openToken(ctx context.Context, a asked) (results, error) {
	w := a.session.worker
	t, err := w.drivers.Open(ctx, a.URI)
	if err != nil {
		return results{}, err
	}
	info, err := t.Info(ctx)
	if err != nil {
		return results{}, errors.Join(err, t.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	handle := w.opened
	w.opened++
	w.open[handle] = t
	return results{Info: &info, Handle: handle}, nil
}

// closeToken closes a token, whose handle is not used again.
func closeToken(_ context.Context, a asked) (results, error) {
	w := a.session.worker
	w.mu.Lock()
	delete(w.open, a.handle)
	w.mu.Unlock()
	return results{}, a.token.Close()
}

// watchTokens returns when tokens may have come or gone.
func watchTokens(ctx context.Context, a asked) (results, error) {
	for _, d := range a.session.worker.drivers {
		if watcher, ok := d.(hsm.Watcher); ok && d.Scheme() == a.Source.Scheme {
			return results{}, watcher.Watch(ctx)
		}
	}
	return results{}, hsm.ErrUnsupported
}

// initialize sets a token up.
func initialize(ctx context.Context, a asked) (results, error) {
	for _, d := range a.session.worker.drivers {
		if i, ok := d.(hsm.Initializer); ok && d.Scheme() == a.URI.Scheme {
			info, err := i.Initialize(ctx, a.URI, a.Initialize, a.person)
			return results{Info: &info}, err
		}
	}
	return results{}, hsm.ErrUnsupported
}

// prepare gets the key for the next signatures.
func prepare(ctx context.Context, a asked) (results, error) {
	var want crypto.PublicKey
	var err error
	if len(a.Want) > 0 {
		if want, err = x509.ParsePKIXPublicKey(a.Want); err != nil {
			return results{}, err
		}
	}
	s := a.session
	if s.signer, err = a.token.Signer(ctx, a.URI, want, a.person); err != nil {
		return results{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(s.signer.Public())
	return results{Public: public}, err
}

func sign(_ context.Context, a asked) (results, error) {
	if a.session.signer == nil {
		return results{}, fmt.Errorf("%w: no signer", wire.ErrFrame)
	}
	signature, err := a.session.signer.Sign(rand.Reader, a.Digest, a.options())
	return results{Signature: signature}, err
}

// setManagementKey replaces the management key, and sends the new one, which may be in
// force in spite of an error.
func setManagementKey(ctx context.Context, a asked) (results, error) {
	o := a.ManagementKey
	if a.Given {
		key, err := a.session.server.Secret(ctx)
		if err != nil {
			return results{}, err
		}
		defer key.Zero()
		o.Key = key
	}
	key, err := a.token.SetManagementKey(ctx, o, a.person)
	defer key.Zero()
	if key != nil {
		if serr := a.session.server.AnswerSecret(key.Bytes()); serr != nil {
			return results{}, serr
		}
	}
	return results{}, err
}

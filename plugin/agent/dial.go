package agent

import (
	"context"
	"crypto"
	"errors"
	"io"
	"os"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
)

// dialSigner signs for new connections, and knows who can be asked for that.
type dialSigner struct {
	people  *people
	sources []pinsource.Entry
	state   string // the folder of the PIN sources' state
	records *records
	notify  *desktop.Notifier
}

// signer returns the key of t for the signature that a new connection needs. Who can
// be asked is known from ctx.
func (s *dialSigner) signer(ctx context.Context, t *target) (crypto.Signer, error) {
	p, settled := s.prompterFor(ctx, t.e.Name)
	signer, err := t.holder.signer(ctx, t.e.Key, t.chain[0].PublicKey, p)
	settled()
	if err != nil {
		s.records.signature(ctx, t.e, err)
		if prompterOf(ctx) == nil && errors.Is(err, hsm.ErrNoTerminal) {
			s.notify.Say("The connection to " + t.e.Name + " needs the token's PIN: run your command again, or kubehsm unlock.")
		}
		return nil, err
	}
	return recordedSigner{signer, func(err error) {
		settled()
		s.records.signature(ctx, t.e, err)
	}}, nil
}

// prompterFor returns who can be asked for a signature: the plugin that waits
// for it, which knows the user's PIN sources itself, else those, and who is there
// for the client whose request needs it. settled is as in [dialSigner.sourced].
func (s *dialSigner) prompterFor(ctx context.Context, enrollment string) (p ask.Func, settled func()) {
	if p := prompterOf(ctx); p != nil {
		return p, func() {}
	}
	if client, ok := bridge.ClientOf(ctx); ok {
		p = s.people.person(client)
	}
	if p == nil {
		p = nobody(s.notify, enrollment)
	}
	return s.sourced(p)
}

// sourced puts the user's PIN sources before p. settled tells them that the token has
// judged their PIN, so that others need not wait for that.
func (s *dialSigner) sourced(p ask.Func) (_ ask.Func, settled func()) {
	if len(s.sources) == 0 {
		return p, func() {}
	}
	from := pinsource.New(pinsource.Options{Entries: s.sources, State: s.state, Getenv: os.Getenv})
	return from.Before(p), func() { _ = from.Close() } // a lock that stays ends by itself soon
}

// recordedSigner records each signature.
type recordedSigner struct {
	crypto.Signer
	signed func(error)
}

func (s recordedSigner) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	sig, err := s.Signer.Sign(rand, digest, opts)
	s.signed(err)
	return sig, err
}

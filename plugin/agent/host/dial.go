package host

import (
	"context"
	"crypto"
	"errors"
	"io"
	"os"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/ask/queue"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/pinsource"
)

// dialSigner signs for new connections, and knows who can be asked for that.
type dialSigner struct {
	responders *queue.Responders
	sources    []pinsource.Entry
	state      string // the folder of the PIN sources' state
	records    *auditing.Records
	notify     *desktop.Notifier
}

// reconnect returns the key of t for a connection that is opened again. Who can be asked
// is whoever is there for the client whose request needs it, which is known from ctx, and
// the user's PIN sources before.
func (s *dialSigner) reconnect(ctx context.Context, t *target) (crypto.Signer, error) {
	var q auditing.Requester
	var p ask.Func
	if client, ok := upstream.ClientOf(ctx); ok {
		q.Client = client
		p = s.responders.Asker(client)
	}
	if p == nil {
		p = nobody(s.notify, t.e.Name)
	}
	settled := func() {}
	if len(s.sources) > 0 { // they come before people
		from := pinsource.New(pinsource.Options{Entries: s.sources, State: s.state, Getenv: os.Getenv})
		p, settled = from.Before(p), func() { _ = from.Close() } // a lock that stays ends by itself soon
	}
	signer, err := s.signer(ctx, t, q, token.Use{Client: q.Client, Ask: p}, settled)
	if errors.Is(err, hsm.ErrNoTerminal) {
		s.notify.Say("The connection to " + t.e.Name + " needs the token's PIN: run your command again, or kubehsm unlock.")
	}
	return signer, err
}

// signIn returns the key of t for the connection that q waits for. Questions go to q's
// plugin, by u: the plugin knows the user's PIN sources itself.
func (s *dialSigner) signIn(ctx context.Context, t *target, q auditing.Requester, u token.Use) (crypto.Signer, error) {
	return s.signer(ctx, t, q, u, func() {})
}

// signer returns the key of t, and has each signature recorded. settled tells the user's PIN
// sources that the token has judged their PIN, so that others need not wait for that.
func (s *dialSigner) signer(ctx context.Context, t *target, q auditing.Requester, u token.Use,
	settled func()) (crypto.Signer, error) {
	signer, err := t.held.Signer(ctx, u, t.key.Key, t.chain[0].PublicKey)
	settled()
	if err = t.lost(err); err != nil {
		s.records.Signature(q, t.e.By(t.key), err)
		return nil, err
	}
	return recordedSigner{signer, func(err error) {
		settled()
		s.records.Signature(q, t.e.By(t.key), err)
	}}, nil
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

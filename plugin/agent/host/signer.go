package host

import (
	"context"
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/ask/queue"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/service"
	signer "github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// externalSigner signs for clients of the external signer protocol: of the agent's
// socket, and of one of its own.
type externalSigner struct {
	keys       *keys
	responders *queue.Responders
	tokens     *token.Holders
	epoch      *epoch
	dial       *dialSigner
	asker      ask.Func // the asker of [Options]
	refusals   *refusals
	life       *life
	records    *auditing.Records
	notify     *desktop.Notifier
	socket     string
	log        *slog.Logger
}

// sign makes a signature for the external signer protocol, which leads to a
// connection past the bridge. So it is made only where a connection alone needs
// nobody's yes: by an enrolled key that is held unlocked now, and whose
// enrollments all leave it at signing in. For any other the token itself is asked,
// and so is its user.
func (s *externalSigner) sign(ctx context.Context, q auditing.Requester, digest *wire.Sign,
	p *link.Asker) (*wire.Signed, error) {
	if digest == nil {
		return nil, fmt.Errorf("%w: nothing to sign", wire.ErrFrame)
	}
	var opts crypto.SignerOpts = crypto.Hash(digest.Hash)
	if digest.Salt != nil {
		opts = &rsa.PSSOptions{SaltLength: *digest.Salt, Hash: crypto.Hash(digest.Hash)}
	}
	r, err := signer.FromParts(map[string]string{signer.KeyURI: digest.Key}, digest.Digest, opts)
	if err != nil {
		return nil, err
	}
	e, err := s.keys.enrolled(*r.Config.URI)
	if errors.Is(err, enrollment.ErrUnknown) || errors.Is(err, errAsksConsent) ||
		err == nil && !s.tokens.Of(e.Key).Unlocked() {
		return &wire.Signed{}, nil
	}
	if err != nil {
		return nil, err
	}
	public, err := s.keys.public(e, r.Opts)
	if err != nil {
		return nil, err
	}
	defer s.tokens.Of(e.Key).Questions().Tell(p)()
	signature, err := s.keys.sign(ctx, token.Use{Client: q.Client, Ask: p.Ask}, e, public, r)
	if errors.Is(err, hsm.ErrPINRequired) { // a PIN for each signature
		return &wire.Signed{}, nil
	}
	s.records.Signed(e, q, err)
	if err != nil {
		return nil, err
	}
	return &wire.Signed{Held: true, Signature: signature}, nil
}

// serve serves the external signer protocol's gRPC form on a socket of its
// own, until ctx ends.
func (s *externalSigner) serve(ctx context.Context) {
	err := service.ListenAndServe(ctx, s.socket, service.Options{
		Answer: s.answer,
		Log:    func(line string) { s.log.Info("external signer", "request", line) },
	}, func() {})
	if err != nil {
		s.log.Error("external signer", "error", err)
	}
}

// answer answers with the certificate of an enrollment and with signatures
// by its key. The rule is that of [externalSigner.sign]; a PIN comes from
// the user's PIN sources or a person, see [Options.Asker].
func (s *externalSigner) answer(ctx context.Context, r externalsigner.Request,
	tell func(text string)) (out externalsigner.Answer, err error) {
	defer r.Zero()
	s.life.active()
	if r.Config.URI == nil {
		return out, hint.With(fmt.Errorf("%w: the agent knows keys by their uri", externalsigner.ErrRequest),
			"`kubehsm kubeconfig set --mode external-signer` writes it")
	}
	if r.Operation == signer.Certificate {
		return s.keys.certificate(r.Config)
	}
	e, err := s.keys.enrolled(*r.Config.URI)
	if err != nil {
		return out, hint.With(err,
			"the agent signs with enrolled keys whose policy is session; "+
				"`kubehsm external-signer serve` signs with any, and asks for the PIN")
	}
	public, err := s.keys.public(e, r.Opts)
	if err != nil {
		return out, err
	}
	q := auditing.Requester{Enrollment: e.Name, Client: process.Of(service.PeerPID(ctx))}
	purpose := hsm.Purpose{Cluster: e.Name, Action: "sign in", Command: consent.CommandOf(q.Client.PID)}
	err = s.life.work(func() error {
		defer s.tokens.Of(e.Key).Questions().Tell(announcedWaiter{q.Client, tell})()
		if err := s.unlock(ctx, e, q, purpose, tell); err != nil {
			return err
		}
		touched := service.Announced("", tell)(touchOnly(s.responders.Asker(q.Client)))
		out.Signature, err = s.keys.sign(ctx, token.Use{Client: q.Client, Purpose: purpose, Ask: touched}, e, public, r)
		s.records.Signed(e, q, err)
		return err
	})
	return out, err
}

// unlock sees to it that the key can be used.
func (s *externalSigner) unlock(ctx context.Context, e enrollment.Enrollment, q auditing.Requester,
	purpose hsm.Purpose, tell func(string)) error {
	h := s.tokens.Of(e.Key)
	if h.Unlocked() {
		return nil
	}
	if err := s.refusals.recall(q.Client, e.Name, time.Now()); err != nil { // clients ask again and again
		return err
	}
	p := nobody(s.notify, e.Name)
	if who := s.responders.First(q.Client); who != nil {
		p = service.Announced(who.Where(), tell)(who.Ask)
	} else if s.asker != nil {
		p = service.Announced("in the window that opens", tell)(s.asker)
	}
	p, settled := s.dial.sourced(p)
	defer settled()
	ctx, cancel := s.epoch.untilLocked(ctx)
	defer cancel()
	err := lockedOr(ctx, h.Unlock(ctx, token.Use{Client: q.Client, Purpose: purpose, Ask: p},
		s.records.Unlocking(q, h.URI())))
	if errors.Is(err, hsm.ErrNoTerminal) {
		err = fmt.Errorf("%s: %w: the agent does not hold the key unlocked: %w", e.Name, hsm.ErrPINRequired, err)
		if hint.Of(err) == "" {
			err = hint.Withf(err, "run `kubehsm unlock %s`", e.Name)
		}
	}
	s.refusals.remember(q.Client, e.Name, err, true, time.Now())
	return err
}

// waitDelay is how long a client of the external signer's socket waits before it
// is told why; others know that themselves.
const waitDelay = time.Second

// announcedWaiter is a client that takes words.
type announcedWaiter struct {
	client process.ID
	tell   func(text string)
}

// Sees implements [ask.Waiter]. [service.Announced] tells the client of the questions that
// are asked for it, whoever is asked.
func (t announcedWaiter) Sees(w ask.Wait, _ ask.Responder) bool {
	return t.client.Known() && w.Client == t.client
}

// Process implements [ask.Waiter].
func (t announcedWaiter) Process() process.ID { return t.client }

// ShowWait implements [ask.Waiter].
func (t announcedWaiter) ShowWait(w ask.Wait) (done func()) {
	late := time.AfterFunc(waitDelay, func() {
		t.tell(w.Words(consent.CommandOf(w.Client.PID), func(s string) string { return s }))
	})
	return func() { late.Stop() }
}

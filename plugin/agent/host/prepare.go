package host

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
)

// Bounds of a prepare's parts.
const (
	reachTimeout = 5 * time.Second
	probeTimeout = 3 * time.Second
	// glanceTimeout bounds the look whether a server is back that could not be
	// reached seconds ago. kubectl runs its plugin up to five times in one command,
	// and where packets are dropped each would wait.
	glanceTimeout = time.Second
	// freshFor is how long an answer of the API server vouches for the
	// connection: laptops sleep, servers close idle connections after 90 s.
	freshFor = 45 * time.Second
)

// signIns make sure that the bridge can carry requests.
type signIns struct {
	targets  *targets
	bridge   *bridgeHost
	flights  *flights
	refusals *refusals
	epoch    *epoch
	issuer   *issuer
	dial     *dialSigner
	records  *auditing.Records
	log      *slog.Logger
	// offer is called with a target that a person has just signed in, by that use.
	offer func(context.Context, *target, token.Use)
}

// prepare makes sure that the bridge can carry requests for an enrollment and
// hands out a session to a client that knows these authorities. The order is the package comment's.
func (s *signIns) prepare(ctx context.Context, q auditing.Requester, authorities []byte,
	p *link.Asker) (_ *message.Session, err error) {
	defer func() {
		if err != nil {
			s.records.Session(q, err)
		}
	}()
	t, err := s.usable(ctx, q.Enrollment, authorities)
	if err != nil {
		return nil, err
	}
	if !t.warm(time.Now()) {
		over := t.held.Questions().Tell(p)
		t, err = s.warmUp(ctx, q, p)
		over()
		if err != nil {
			return nil, err
		}
	}
	return s.issuer.attended(t, q)
}

// usable is the enrollment, once it is known that it can be used by a client that knows these
// authorities.
func (s *signIns) usable(ctx context.Context, name string, authorities []byte) (*target, error) {
	t, err := s.targets.target(name)
	if err == nil && !t.warm(time.Now()) {
		t, err = s.targets.choose(ctx, t)
	}
	if err == nil {
		err = t.inDate(time.Now())
	}
	if err == nil {
		err = s.bridge.ensure()
	}
	if err == nil {
		err = s.bridge.known(name, authorities)
	}
	return t, err
}

// look is prepare for a client that only looks: what takes a PIN, a touch or a yes is
// [hsm.ErrPINRequired]. Nothing of that is recorded or remembered, and nobody is asked by p.
func (s *signIns) look(ctx context.Context, q auditing.Requester, authorities []byte,
	_ *link.Asker) (*message.Session, error) {
	t, err := s.usable(ctx, q.Enrollment, authorities)
	if err != nil {
		return nil, err
	}
	if t.policy.AsksOfReading() {
		return nil, t.unasked("%s requires consent for reads")
	}
	if !t.warm(time.Now()) {
		if t, err = s.lookIn(ctx, q); err != nil {
			return nil, err
		}
	}
	return s.issuer.issue(t, q)
}

// lookIn makes an enrollment warm if that takes nobody, or waits for whoever does. What another was refused
// is no answer: there the person said no.
func (s *signIns) lookIn(ctx context.Context, q auditing.Requester) (*target, error) {
	ctx, cancel := s.epoch.untilLocked(ctx)
	defer cancel()
	var err error
	for led := false; !led; {
		err = s.flights.do(ctx, q.Enrollment, q.Client.Terminal(), func() error {
			led = true
			t, err := s.targets.target(q.Enrollment)
			if err != nil || t.warm(time.Now()) {
				return err
			}
			_, err = s.connect(ctx, t, q, token.Use{Client: q.Client})
			return err
		})
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if why, ok := errors.AsType[unasked](err); ok {
		return nil, why
	}
	if err != nil {
		return nil, lockedOr(ctx, err)
	}
	return s.targets.target(q.Enrollment)
}

// unasked is an error for a client that only looks. why names the enrollment by %s.
func (t *target) unasked(why string) error { return unasked(fmt.Sprintf(why, t.e.Name)) }

// unasked is why somebody would have to be asked.
type unasked string

func (u unasked) Error() string { return string(u) }
func (u unasked) Unwrap() error { return hsm.ErrPINRequired }

// unaskedKey returns the key of t if it signs without anybody.
func (s *signIns) unaskedKey(ctx context.Context, t *target, q auditing.Requester, u token.Use) (crypto.Signer, error) {
	if err := t.asksNobody(ctx); err != nil {
		return nil, err
	}
	return s.dial.signIn(ctx, t, q, u)
}

// asksNobody fails with [unasked] unless the key of t signs now without anybody.
func (t *target) asksNobody(ctx context.Context) error {
	slot, err := t.find(ctx)
	if err != nil {
		return err
	}
	k := slot.Key
	switch {
	case k != nil && k.PIN == hsm.PINAlways:
		return t.unasked("the key of %s needs its PIN each time")
	case k != nil && (k.Touch == hsm.TouchAlways || k.Touch == hsm.TouchCached):
		return t.unasked("the key of %s needs a touch")
	case !t.held.Unlocked() && (k == nil || k.PIN != hsm.PINNever):
		return t.unasked("the token of %s is locked")
	}
	return nil
}

// warm tells whether the connection is there and known to be good.
func (t *target) warm(now time.Time) bool {
	return t.ready.Load() && !t.up.Rejected() && t.up.Live() && now.Sub(t.up.LastAnswer()) < freshFor
}

// recall returns the refusal that is still in force for a client. One for want of a network
// that is back is not: a program that runs on may ask again at once.
func (s *signIns) recall(ctx context.Context, q auditing.Requester) error {
	refused := s.refusals.recall(q.Client, q.Enrollment, time.Now())
	if !errors.Is(refused, upstream.ErrUnreachable) {
		return refused
	}
	t, err := s.targets.target(q.Enrollment)
	if err != nil {
		return refused
	}
	ctx, cancel := context.WithTimeout(ctx, glanceTimeout)
	defer cancel()
	if t.up.Reach(ctx) == nil {
		return nil
	}
	return refused
}

// warmUp is the cold half of a prepare, done by one caller for all.
func (s *signIns) warmUp(ctx context.Context, q auditing.Requester, p *link.Asker) (*target, error) {
	name := q.Enrollment
	if err := s.recall(ctx, q); err != nil {
		return nil, err
	}
	ctx, cancel := s.epoch.untilLocked(ctx)
	defer cancel()
	use := token.Use{Client: q.Client, Ask: p.Ask,
		Purpose: hsm.Purpose{Cluster: name, Action: "sign in", Command: q.Shown()}}
	var t *target
	err := s.flights.do(ctx, name, q.Client.Terminal(), func() (err error) {
		if err := s.recall(ctx, q); err != nil {
			return &ownRefusal{err}
		}
		defer func() { s.refusals.remember(q.Client, name, lockedOr(ctx, err), p.HasAsked(), time.Now()) }()
		if t, err = s.targets.target(name); err != nil {
			return err
		}
		if t.warm(time.Now()) { // another request has connected
			return nil
		}
		t, err = s.connect(ctx, t, q, use)
		if errors.Is(err, context.Canceled) && p.HasAsked() { // ctrl-c at the prompt
			err = hsm.ErrCancelled
		}
		return err
	})
	if own, ok := errors.AsType[*ownRefusal](err); ok {
		return nil, own.error
	}
	err = lockedOr(ctx, err)
	s.refusals.remember(q.Client, name, err, p.HasAsked(), time.Now())
	if err != nil {
		s.log.Info("prepare failed", "enrollment", name, "error", err)
		return nil, err
	}
	if t == nil { // another was the leader
		return s.targets.target(name)
	}
	if p.HasAsked() {
		s.offer(ctx, t, use)
	}
	return t, nil
}

// ownRefusal is a refusal that is in force for the leader of a flight, and not for who
// waits.
type ownRefusal struct{ error }

// passOn tells which failures are the leader's alone: it was refused before, left before
// anybody was asked or answered, or has no terminal to ask on. A no at the prompt holds for all who wait
// at the same terminal (a script's commands, a shell's jobs); elsewhere is another
// window, and its person is asked.
func passOn(err error, elsewhere bool) bool {
	if _, own := errors.AsType[*ownRefusal](err); own {
		return true
	}
	if errors.Is(err, hsm.ErrCancelled) {
		return elsewhere
	}
	return errors.Is(err, ask.ErrGone) || errors.Is(err, context.Canceled) || errors.Is(err, hsm.ErrNoTerminal) || errors.Is(err, hsm.ErrPINRequired)
}

// connect makes t warm, or its successor if t was only waiting for its connection to end, and returns which. Where u
// asks nobody it fails with [unasked] if somebody has to be.
func (s *signIns) connect(ctx context.Context, t *target, q auditing.Requester, u token.Use) (*target, error) {
	key := s.dial.signIn
	if u.Ask == nil {
		key = s.unaskedKey
	}
	signer := func(ctx context.Context) (crypto.Signer, error) { return key(ctx, t, q, u) }
	if t.ready.Load() && t.up.Live() {
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		err := t.up.SignIn(probe, signer)
		cancel()
		if err == nil || ctx.Err() != nil {
			return t, err
		}
		if errors.Is(err, upstream.ErrUnauthorized) {
			t.up.Forget() // only a handshake with a signature tells what it is about
		}
		t.up.Reset() // or the connection died while nobody looked
	}
	if t.past.Load() { // its server may be gone, and a person is not asked to sign in there
		var err error
		if t, err = s.targets.target(t.e.Name); err != nil {
			return nil, err
		}
	}
	if t.again != nil {
		var err error
		if t, err = s.signAgain(ctx, t, q, u); err != nil {
			return nil, err
		}
	}
	if err := s.unlock(ctx, t, q, u); err != nil {
		return nil, err
	}
	if err := t.up.SignIn(ctx, signer); err != nil {
		return nil, t.explain(err)
	}
	t.ready.Store(true)
	s.targets.usedLast(t)
	s.log.Info("ready", "enrollment", t.e.Name)
	return t, nil
}

// unlock unlocks the token, after making sure that a PIN would not be typed in
// vain: the server answers and the key is there.
func (s *signIns) unlock(ctx context.Context, t *target, q auditing.Requester, u token.Use) error {
	if t.held.Unlocked() {
		t.held.Use()
		return nil
	}
	reached := make(chan error, 1)
	go func() {
		rctx, cancel := context.WithTimeout(ctx, reachTimeout)
		defer cancel()
		reached <- t.up.Reach(rctx)
	}()
	slot, err := t.find(ctx)
	if rerr := <-reached; rerr != nil {
		return rerr
	}
	if err != nil {
		return err
	}
	if k := slot.Key; k != nil && (k.PIN == hsm.PINNever || k.PIN == hsm.PINAlways) {
		return nil // none is wanted, or one with every signature
	}
	if u.Ask == nil {
		return t.unasked("the token of %s is locked")
	}
	t.held.Use()
	return t.held.Unlock(ctx, u, s.records.Unlocking(q, t.held.URI()))
}

// explain finds words for a failed sign-in.
func (t *target) explain(err error) error {
	if !errors.Is(err, upstream.ErrUnauthorized) {
		return err
	}
	leaf := t.chain[0]
	if leaf.NotAfter.Before(time.Now()) {
		return t.inDate(time.Now())
	}
	return hint.Withf(
		fmt.Errorf("%s: %w of %q, issued by %q: %w", t.e.Name, message.ErrRejected, leaf.Subject.CommonName,
			leaf.Issuer.CommonName, err),
		"the cluster's client authority may have changed, or the certificate is another cluster's; enroll again with `%s`",
		t.e.Command())
}

// maxTokens bounds the tokens that the agent knows before it unlocks one for an enrollment to come.
const maxTokens = 64

// unlockAhead is the unlock operation. A token that is not the zero URI is unlocked for an enrollment that may not be
// there yet; given says that p has the PIN at hand.
func (s *signIns) unlockAhead(ctx context.Context, q auditing.Requester, u hsm.URI, p *link.Asker,
	given bool) error {
	if u.Scheme != "" {
		if len(s.targets.tokens.List()) >= maxTokens {
			return fmt.Errorf("the agent knows %d tokens already", maxTokens)
		}
		ctx, cancel := s.epoch.untilLocked(ctx)
		defer cancel()
		return lockedOr(ctx, s.unlockHeld(ctx, s.targets.tokens.Of(u), q, p, given))
	}
	t, err := s.targets.target(q.Enrollment)
	if err == nil {
		t, err = s.targets.choose(ctx, t)
	}
	if err != nil {
		return err
	}
	if err := s.bridge.ensure(); err != nil { // kubectl could not use it
		return err
	}
	defer t.held.Questions().Tell(p)()
	ctx, cancel := s.epoch.untilLocked(ctx)
	defer cancel()
	if _, err = t.find(ctx); err == nil {
		err = s.unlockHeld(ctx, t.held, q, p, given)
	}
	if err = lockedOr(ctx, err); err == nil {
		s.refusals.remember(q.Client, t.e.Name, nil, true, time.Now())
		s.wake(ctx, t.held, q, p)
	}
	return err
}

// unlockHeld unlocks a token, which counts as used then.
func (s *signIns) unlockHeld(ctx context.Context, h *token.Held, q auditing.Requester, p *link.Asker, given bool) error {
	// The purpose has no command, since kubehsm itself asks.
	use := token.Use{Client: q.Client, Purpose: hsm.Purpose{Cluster: q.Enrollment, Action: "unlock the token"}, Ask: p.Ask,
		Given: given}
	err := h.Unlock(ctx, use, s.records.Unlocking(q, h.URI()))
	if err == nil {
		h.Use()
	}
	return err
}

// wake connects for programs that had a session before the lock and do not run the plugin
// again. The token is unlocked whether that succeeds or not.
func (s *signIns) wake(ctx context.Context, h *token.Held, q auditing.Requester, p *link.Asker) {
	for _, name := range s.issuer.sessions.Sleeping() {
		if t, err := s.targets.target(name); err != nil || t.held != h {
			continue
		}
		q.Enrollment = name
		if _, err := s.warmUp(ctx, q, p); err != nil {
			s.log.Info("programs from before the lock keep waiting", "enrollment", name, "error", err)
		}
	}
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/service"
	signer "github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// serveSigner serves the external signer protocol's gRPC form on a socket of its
// own, until ctx ends.
func (a *agent) serveSigner(ctx context.Context) {
	err := service.ListenAndServe(ctx, a.o.Dirs.SignerSocket(), service.Options{
		Answer: a.answerSigner,
		Log:    func(line string) { a.log.Info("external signer", "request", line) },
	}, func() {})
	if err != nil {
		a.log.Error("external signer", "error", err)
	}
}

// answerSigner answers with the certificate of an enrolment and with signatures
// by its key. The rule is that of [agent.sign]; a PIN comes from
// the user's PIN sources or a person, see [Options.Asker].
func (a *agent) answerSigner(ctx context.Context, r externalsigner.Request, tell func(text string)) (out externalsigner.Answer, err error) {
	defer r.Zero()
	a.life.active()
	if r.Config.URI == nil {
		return out, hsm.WithHint(fmt.Errorf("%w: the agent knows keys by their uri", externalsigner.ErrRequest),
			"`kubehsm kubeconfig set --mode external-signer` writes it")
	}
	if r.Operation == signer.Certificate {
		return a.enrolledCertificate(r.Config)
	}
	e, err := a.enrolledKey(*r.Config.URI)
	if err != nil {
		return out, hsm.WithHint(err, "the agent signs with enrolled keys whose policy is session; `kubehsm external-signer serve` signs with any, and asks for the PIN")
	}
	public, err := a.publicKey(e, r.Opts)
	if err != nil {
		return out, err
	}
	q := requester{enrollment: e.Name, client: process.Of(service.PeerPID(ctx))}
	ctx = withRequester(hsm.WithPurpose(ctx, hsm.Purpose{Cluster: e.Name, Action: "sign in", Command: consent.CommandOf(q.client.PID)}), q)
	err = a.life.work(func() error {
		defer a.tokens.of(e.Key).asks.tell(toldWaiter{q.client, tell})()
		if err := a.unlockForSigner(ctx, e, q, tell); err != nil {
			return err
		}
		out.Signature, err = a.signHeld(ctx, e, public, r, service.Told(touchOnly{a.person(q.client)}, "", tell))
		a.records.signed(e, q, err)
		return err
	})
	return out, err
}

// unlockForSigner sees to it that the key can be used.
func (a *agent) unlockForSigner(ctx context.Context, e enrollment.Enrollment, q requester, tell func(string)) error {
	h := a.tokens.of(e.Key)
	if h.unlocked() {
		return nil
	}
	if err := a.flights.recall(q.client, e.Name, time.Now()); err != nil { // clients ask again and again
		return err
	}
	var p hsm.Prompter = nobody{a.notify, e.Name}
	if who := a.someone(q.client); who != nil {
		p = service.Told(who.p, who.where(), tell)
	} else if a.o.Asker != nil {
		p = service.Told(a.o.Asker, "in the window that opens", tell)
	}
	p = a.sourced(p)
	defer settled(p)
	ctx, cancel := a.epoch.untilLocked(ctx)
	defer cancel()
	err := lockedOr(ctx, h.unlock(ctx, p))
	if errors.Is(err, hsm.ErrNoTerminal) {
		err = fmt.Errorf("%s: %w: the agent does not hold the key unlocked: %w", e.Name, hsm.ErrPINRequired, err)
		if hsm.Hint(err) == "" {
			err = hsm.Hintf(err, "run `kubehsm unlock %s`", e.Name)
		}
	}
	a.flights.remember(q.client, e.Name, err, time.Now())
	return err
}

// enrolledCertificate is that of the enrolment that the configuration names, or
// of any with its key.
func (a *agent) enrolledCertificate(c signer.Config) (out externalsigner.Answer, err error) {
	var e enrollment.Enrollment
	key := c.URI.Identity().String()
	if c.Enrollment != "" {
		e, err = a.store.Load(c.Enrollment)
	}
	if c.Enrollment == "" || err != nil || e.Key.Identity().String() != key {
		all, lerr := a.store.List()
		if lerr != nil {
			return out, lerr
		}
		err = hsm.WithHint(fmt.Errorf("%s: no enrolment has this key: %w", c.URI, enrollment.ErrUnknown), "`kubehsm enroll` makes one")
		for _, each := range all {
			if each.Key.Identity().String() == key {
				e, err = each, nil
				break
			}
		}
	}
	if err != nil {
		return out, err
	}
	chain, err := a.store.Certificate(e)
	if err != nil {
		return out, err
	}
	return externalsigner.Answer{Certificate: chain[0].Raw}, nil
}

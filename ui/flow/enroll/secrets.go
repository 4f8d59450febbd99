package enroll

import (
	"context"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// replaceable tells whether a guided enrollment can replace the default secrets: a blocked
// PIN must be unblocked first, and not every card takes a new management key.
func replaceable(all []defaultSecret, info hsm.TokenInfo) bool {
	if info.Kind().DefaultPIN == "" || info.PIN.Blocked() || !info.Can.ChangePIN {
		return false
	}
	return info.Can.ManagementKey || !slices.ContainsFunc(all, func(s defaultSecret) bool { return s.kind == hsm.ManagementKey })
}

// ownSecrets replaces the default PIN and management key. The PUK follows once the enrollment
// is done ([attempt.ownPUK]): whoever stops before has nothing to keep yet.
func (r *attempt) ownSecrets(ctx context.Context, all []defaultSecret) error {
	has := func(kind hsm.PINKind) bool {
		return slices.ContainsFunc(all, func(s defaultSecret) bool { return s.kind == kind })
	}
	if has(hsm.UserPIN) || has(hsm.ManagementKey) {
		if err := token.LockAgent(ctx, r.env); err != nil { // it must not try the old PIN
			return err
		}
	}
	if has(hsm.UserPIN) {
		asking := knownDefaults(ask.From(r.asking("choose a PIN of your own")))
		if err := r.token.ChangePIN(ctx, hsm.UserPIN, asking.Prompter()); err != nil {
			r.pins.zero()
			return err
		}
		r.pins.prove()
		r.progress(enrolling.StepToken, "the PIN is yours now")
	}
	if has(hsm.ManagementKey) {
		key, err := r.token.SetManagementKey(ctx, hsm.ManagementKeyOptions{Protect: true},
			r.asking("set a random management key"))
		key.Zero() // the card has it
		if err != nil {
			return err
		}
		r.pins.prove()
		r.progress(enrolling.StepToken, "the management key is random now")
	}
	var err error
	r.info, err = r.token.Info(ctx)
	return err
}

// ownPUK replaces the default PUK of the token of an enrollment that is done. What stands in
// the way becomes a note: the enrollment works without.
func (r *attempt) ownPUK(ctx context.Context) {
	o := r.record.Options
	if !r.given.Guided || o.AcceptDefaults || o.Token.Kind().DefaultPUK == "" {
		return
	}
	tokens := token.Tokens{Env: r.env}
	var fresh *token.FreshPUK
	err := tokens.With(ctx, o.Token, func(t hsm.Token) error {
		d, err := token.ReadDetails(ctx, t)
		if err != nil || d == nil || d.PUK == nil || !d.PUK.Default || d.PUK.Left == 0 {
			return err
		}
		if fresh, err = token.NewFreshPUK(); err != nil {
			return err
		}
		asking := knownDefaults(ask.From(fresh.Before(r.asking("set a random PUK"))))
		return t.ChangePIN(ctx, hsm.PUK, asking.Prompter())
	})
	if fresh != nil {
		r.result.PUK, r.result.PUKUnsure = fresh.InForce(err), err != nil
	}
	if err == nil && r.result.PUK != nil && o.Join != nil && len(o.Join.Seal) > 0 {
		sealed := enrolling.SealedPUK{Ticket: o.Join.Ticket, Serial: r.info.Serial}
		if sealed.Text, err = o.Join.SealPUK(sealed.Serial, r.result.PUK.Bytes()); err == nil { // else it is shown
			r.result.PUK.Zero()
			r.result.PUK, r.result.SealedPUK = nil, &sealed
		}
	}
	if err != nil {
		r.result.Notes = append(r.result.Notes,
			fmt.Sprintf("the PUK: %v; `kubehsm token puk change --generate` sets one of your own", err))
	}
}

// knownDefaults answers the question for a PIN or a PUK that the card itself says is the
// default one. No other is known, and one that is refused is not tried again.
func knownDefaults(next ask.Func) ask.Func {
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		p := q.PIN
		if p == nil || p.New || !p.Token.PIN.Default {
			return next(ctx, q)
		}
		kind := p.Token.Kind()
		known := kind.DefaultPIN
		if p.Kind == hsm.PUK {
			known = kind.DefaultPUK
		}
		switch {
		case known == "":
			return next(ctx, q)
		case p.Again != "":
			return ask.Answer{}, fmt.Errorf("the card says that its %s is the default one, and refuses that: %s", p.Kind, p.Again)
		}
		return ask.Answer{PIN: hsm.NewSecret([]byte(known))}, nil
	}
}

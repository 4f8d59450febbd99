package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// ErrDefaultSecrets: the token's PIN, PUK or management key is the default
// one, which everybody knows.
var ErrDefaultSecrets = errors.New("the token still has default secrets, which everybody knows")

// defaultSecret is one that is to be changed, and the command that does it.
type defaultSecret struct {
	kind    hsm.PINKind
	command string
}

// defaultSecrets lists the default values in force, as far as the token tells.
func defaultSecrets(ctx context.Context, t hsm.Token, info hsm.TokenInfo) ([]defaultSecret, error) {
	d, err := token.ReadDetails(ctx, t)
	if err != nil {
		return nil, err
	}
	if d == nil {
		d = &hsm.Details{}
	}
	var all []defaultSecret
	if info.PIN.Default || d.PIN != nil && d.PIN.Default {
		command := "token pin change"
		if info.PIN.Blocked() { // the PIN cannot change itself
			command = "token pin unblock"
		}
		all = append(all, defaultSecret{hsm.UserPIN, command})
	}
	if d.PUK != nil && d.PUK.Default && d.PUK.Left > 0 { // a blocked one opens nothing
		all = append(all, defaultSecret{hsm.PUK, "token puk change"})
	}
	if d.ManagementKey.Default {
		all = append(all, defaultSecret{hsm.ManagementKey, "token management-key set --protect"})
	}
	return all, nil
}

// defaultWords names the secrets: "the default PIN and PUK".
func defaultWords(all []defaultSecret) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s.kind)
	}
	last := len(names) - 1
	if last > 0 {
		names = []string{strings.Join(names[:last], ", "), names[last]}
	}
	return "the default " + strings.Join(names, " and ")
}

// defaultsNote says beforehand what the secrets mean for the enrollment.
func defaultsNote(all []defaultSecret, accepted bool) string {
	if accepted {
		return defaultWords(all) + ": in force, known to everybody, and accepted"
	}
	return defaultWords(all) + ": in force and known to everybody; the enrollment stops until they are changed"
}

// secrets are those of the token of an enrollment.
type secrets struct{ of *attempt }

// mend replaces default secrets where a person goes through the enrollment; else
// they are an error, unless that was accepted.
func (s secrets) mend(ctx context.Context) error {
	r := s.of
	all, err := defaultSecrets(ctx, r.token, r.info)
	if r.record.Options.Adopt { // the management key and the PUK may be those of who issued the token
		all = slices.DeleteFunc(all, func(s defaultSecret) bool { return s.kind != hsm.UserPIN })
	}
	if err != nil || len(all) == 0 {
		return err
	}
	if r.record.Options.AcceptDefaults {
		r.note("%s", defaultsNote(all, true))
		return nil
	}
	if r.given.Guided && replaceable(all, r.info) {
		return s.replace(ctx, all)
	}
	return defaultsRefusal(all, r.info)
}

// RefuseDefaults is [ErrDefaultSecrets] for a token that cannot be enrolled before
// its default PIN, PUK or management key is changed. The zero URI is the only token there is. It returns nil where no token can be looked at
// yet: then the enrollment checks.
func (n Joins) RefuseDefaults(ctx context.Context, u hsm.URI) error {
	if u.Scheme == "" {
		var err error
		if u, err = (token.Tokens{Env: n.env}).Only(ctx); err != nil {
			return ctx.Err()
		}
	}
	t, err := n.env.Drivers.Open(ctx, u)
	if err != nil {
		return ctx.Err()
	}
	defer t.Close()
	info, err := t.Info(ctx)
	if err != nil {
		return ctx.Err()
	}
	all, err := defaultSecrets(ctx, t, info)
	if err != nil {
		return ctx.Err()
	}
	if len(all) == 0 {
		return nil
	}
	return defaultsRefusal(all, info)
}

// defaultsRefusal is the error for secrets that are to be changed first.
func defaultsRefusal(all []defaultSecret, info hsm.TokenInfo) error {
	commands := make([]string, len(all))
	for i, s := range all {
		commands[i] = fmt.Sprintf("`kubehsm %s --token %s`", s.command, shell.Quote(info.URI().String()))
	}
	return hint.Withf(fmt.Errorf("%w: %s", ErrDefaultSecrets, defaultWords(all)),
		"set your own first with %s; then run the same command again", strings.Join(commands, ", "))
}

// replaceable tells whether a guided enrollment can replace the default secrets: a blocked
// PIN must be unblocked first, and not every card takes a new management key.
func replaceable(all []defaultSecret, info hsm.TokenInfo) bool {
	if info.Kind().DefaultPIN == "" || info.PIN.Blocked() || !info.Can.ChangePIN {
		return false
	}
	return info.Can.ManagementKey || !has(all, hsm.ManagementKey)
}

func has(all []defaultSecret, kind hsm.PINKind) bool {
	return slices.ContainsFunc(all, func(s defaultSecret) bool { return s.kind == kind })
}

// replace replaces the default PIN and management key. The PUK follows once the enrollment
// is done ([secrets.replacePUK]): whoever stops before has nothing to keep yet.
func (s secrets) replace(ctx context.Context, all []defaultSecret) error {
	r := s.of
	r.progress(enrolling.StepToken, "found %s; setting its own PIN and management key", r.info.Name())
	if has(all, hsm.UserPIN) || has(all, hsm.ManagementKey) {
		if err := token.LockAgent(ctx, r.env); err != nil { // the agent must not try the old PIN
			return err
		}
	}
	if has(all, hsm.UserPIN) {
		err := r.withPIN(ctx, "replace the default PIN", func(p hsm.Prompter) error {
			if err := r.token.ChangePIN(ctx, hsm.UserPIN, knownDefaults(ask.From(p)).Prompter()); err != nil {
				return err
			}
			return token.LockAgent(ctx, r.env) // the agent may have been given the old PIN meanwhile
		})
		if err != nil {
			return err
		}
		r.progress(enrolling.StepToken, "the PIN is changed")
	}
	if has(all, hsm.ManagementKey) {
		err := r.withPIN(ctx, "set a random management key", func(p hsm.Prompter) error {
			key, err := r.token.SetManagementKey(ctx, hsm.ManagementKeyOptions{Protect: true}, p)
			key.Zero() // the card has it
			return err
		})
		if err != nil {
			return err
		}
		r.progress(enrolling.StepToken, "the management key is changed to a random one")
	}
	var err error
	r.info, err = r.token.Info(ctx)
	return err
}

// replacePUK replaces the default PUK of the token of an enrollment that is done. What stands in
// the way becomes a warning: the enrollment works without, but whoever finds the token can set
// its PIN.
func (s secrets) replacePUK(ctx context.Context) {
	r, o := s.of, s.of.record.Options
	if !r.given.Guided || o.Adopt || o.AcceptDefaults || o.Token.Kind().DefaultPUK == "" {
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
		asking := knownDefaults(ask.From(fresh.Before(ask.With(r.env.Prompter, r.purpose("set a random PUK")))))
		return t.ChangePIN(ctx, hsm.PUK, asking.Prompter())
	})
	if fresh != nil {
		r.result.PUK = fresh.InForce(err)
		r.result.PUKUnsure = err != nil && r.result.PUK != nil
	}
	if err != nil {
		state := "is still the default one, which everybody knows: whoever has the token can set its PIN"
		if r.result.PUKUnsure {
			state = "may still be the default one, which everybody knows"
		}
		r.result.Warnings = append(r.result.Warnings, fmt.Sprintf(
			"the PUK %s (%v); change it with `kubehsm token puk change --generate --token %s`", state, err,
			shell.Quote(r.info.URI().String())))
	}
}

// knownDefaults answers the question for a PIN or a PUK that the card itself says is the
// default one. No other is known, and one that is refused is not tried again.
func knownDefaults(next ask.Func) ask.Func {
	given := false
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		p := q.PIN
		if p == nil || p.New || !p.Token.PIN.Default || !given && (p.Token.PIN.Low || p.Token.PIN.Final) {
			return next(ctx, q) // a try was spent before: perhaps on the default one, that the card refused
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
			return ask.Answer{}, hint.With(fmt.Errorf("the card says that its %s is the default one, and refuses that: %s",
				p.Kind, p.Again), "set your own with `kubehsm token pin change` or `kubehsm token puk change`")
		}
		given = true
		return ask.Answer{PIN: hsm.NewSecret([]byte(known))}, nil
	}
}

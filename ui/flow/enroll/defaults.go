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
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// ErrDefaultSecrets: the token's PIN, PUK or management key is the default
// one, which everybody knows.
var ErrDefaultSecrets = errors.New("the token still has secrets that everybody knows")

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

// mendDefaults replaces default secrets where a person goes through the enrollment; else
// they are an error, unless that was accepted.
func (r *attempt) mendDefaults(ctx context.Context) error {
	all, err := defaultSecrets(ctx, r.token, r.info)
	if err != nil || len(all) == 0 {
		return err
	}
	if r.record.Options.AcceptDefaults {
		r.note("%s", defaultsNote(all, true))
		return nil
	}
	if r.given.Guided && replaceable(all, r.info) {
		return r.ownSecrets(ctx, all)
	}
	return defaultsRefusal(all, r.info)
}

// RefuseDefaults is [ErrDefaultSecrets] for a token that cannot be enrolled before
// its default PIN, PUK or management key is changed; the PUK counts only with puk.
// The zero URI is the only token there is. It returns nil where no token can be looked at
// yet: then the enrollment checks.
func (n Joins) RefuseDefaults(ctx context.Context, u hsm.URI, puk bool) error {
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
	if !puk {
		all = slices.DeleteFunc(all, func(s defaultSecret) bool { return s.kind == hsm.PUK })
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

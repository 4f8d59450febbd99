package desk

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
)

// Removable tells whether there is anything that can be taken away.
func (r Revocation) Removable() bool {
	return len(r.Bindings)+len(r.Pending)+len(r.Approved)+len(r.Tickets) > 0
}

// Question is what to ask before [Revocations.Revoke].
func (r Revocation) Question() string {
	if r.Removable() {
		return "Remove, deny and end these?"
	}
	return "Record the revocation?"
}

// Remains says, a line each, what nobody can take away. date words a time.
func (r Revocation) Remains(date func(time.Time) string) []string {
	lines := []string{"No live certificate is known; one that is not known cannot be revoked either."}
	if until := r.Until(); !until.IsZero() {
		lines[0] = fmt.Sprintf("The certificates cannot be revoked: whoever has the token and its PIN is still %q until %s.", r.User, date(until))
	}
	for _, b := range r.GroupBindings {
		lines = append(lines, fmt.Sprintf("Through the group %q they still have %s (%s): take the group's binding away, if nobody else needs it.", b.Subject, b.Role, b.Name))
	}
	return append(lines, "If it must end at once: the cluster's client authority has to be replaced.")
}

// Err is the error for what could not be taken away, nil if all of it was.
func (r Revocation) Err() error {
	switch {
	case len(r.Failed) > 0:
		return hint.With(errors.New("not all access could be removed"), r.sendOn())
	case len(r.Unseen) > 0:
		return hint.With(fmt.Errorf("you may not look at everything, so some access may remain: %s", strings.Join(r.Unseen, "; ")), r.sendOn())
	}
	return nil
}

func (r Revocation) sendOn() string {
	return "`kubehsm rbac check` shows what you may do; have a cluster admin run `kubehsm helpdesk revoke --user " + shell.Quote(r.User) + "`"
}

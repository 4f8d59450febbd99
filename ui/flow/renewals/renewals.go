// Package renewals finds out who on a cluster's roster may not file requests, and so cannot renew.
package renewals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/session"
)

// Barred are those on the roster who may not file requests: nobody renews their certificates.
type Barred struct {
	// Groups are those whose members may not, Users those who are in no group and may not. All text comes
	// from the cluster.
	Groups []string `json:"groups,omitempty"`
	Users  []string `json:"users,omitempty"`
	// Unasked are how many tokens nobody asked about: there were too many, or a consent policy asks about each question.
	Unasked int `json:"unasked,omitempty"`
}

// The bounds of the questions who may file: each is a request to the API server.
const (
	maxAsked  = 12
	lookAhead = 5 * time.Second
)

// errBound ends the questions at their bound.
var errBound = errors.New("too many to ask about")

// Look finds out who is barred in the cluster of a context at now: nobody where there is no roster, or where
// the caller may not look.
func Look(ctx context.Context, e *env.Env, kubeContext string, now time.Time) (Barred, error) {
	var none, found Barred
	all, err := desk.NewRoster(e).List(ctx, kubeContext)
	if unknown(err) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	client, err := cluster.Access{Env: e}.Client(ctx, kubeContext)
	if err != nil {
		return none, err
	}
	limited, cancel := context.WithTimeout(ctx, lookAhead)
	defer cancel()
	asked := filers{rights: client.Rights(), left: maxAsked, groups: map[string]bool{}}
	switch consent, err := needsConsent(ctx, e, kubeContext); {
	case err != nil:
		return none, err
	case consent:
		asked.left = 0
	}
	for _, t := range all {
		if !renews(t, now) || found.have(t) {
			continue
		}
		may, err := asked.may(limited, t)
		switch {
		case errors.Is(err, errBound), limited.Err() != nil && ctx.Err() == nil:
			found.Unasked++
		case unknown(err):
			return none, nil
		case err != nil:
			return none, err
		case !may:
			found.add(t)
		}
	}
	return found, nil
}

// needsConsent tells whether the consent policy of a context would ask about the questions, which it takes for writes:
// nobody wants to be asked a dozen times.
func needsConsent(ctx context.Context, e *env.Env, kubeContext string) (bool, error) {
	at, err := cluster.Access{Env: e}.Endpoint(ctx, kubeContext)
	if err != nil || at.Enrollment == "" {
		return false, err
	}
	c, err := session.Agent{Env: e}.Consent(at.Enrollment)
	return c.Asks(), err
}

// unknown tells whether err is because the caller may not look, or the cluster does not know the kind.
func unknown(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// renews tells whether the token's owner gets another certificate from the approver.
func renews(t desk.RosterEntry, now time.Time) bool {
	switch clusterapi.TokenState(t.State) {
	case clusterapi.HandedOut, clusterapi.Active:
		return t.Owner != "" && (t.Horizon == nil || t.Horizon.After(now))
	}
	return false
}

// have tells whether nothing about the token would be new.
func (b Barred) have(t desk.RosterEntry) bool {
	if len(t.Groups) == 0 {
		return slices.Contains(b.Users, t.Owner)
	}
	return !slices.ContainsFunc(t.Groups, func(g string) bool { return !slices.Contains(b.Groups, g) })
}

func (b *Barred) add(t desk.RosterEntry) {
	if len(t.Groups) == 0 {
		b.Users = append(b.Users, t.Owner)
	}
	for _, g := range t.Groups {
		if !slices.Contains(b.Groups, g) {
			b.Groups = append(b.Groups, g)
		}
	}
}

// filers asks who may file requests.
type filers struct {
	rights csr.Rights
	left   int             // how many questions may follow
	groups map[string]bool // answers by group
}

// may tells whether the owner may, by a group or by name.
func (f *filers) may(ctx context.Context, t desk.RosterEntry) (bool, error) {
	for _, g := range t.Groups {
		may, known := f.groups[g]
		if !known {
			var err error
			if may, err = f.ask(ctx, csr.Subject{Groups: []string{g}}); err != nil {
				return false, err
			}
			f.groups[g] = may
		}
		if may {
			return true, nil
		}
	}
	return f.ask(ctx, csr.Subject{User: t.Owner, Groups: t.Groups})
}

func (f *filers) ask(ctx context.Context, s csr.Subject) (bool, error) {
	if f.left == 0 {
		return false, errBound
	}
	f.left--
	return f.rights.MayFile(ctx, s)
}

// maxGranted bounds whom the hint of [Barred.Err] names: it is one line.
const maxGranted = 3

// Err is the error for those who may not renew, nil if there are none.
func (b Barred) Err() error {
	var flags []string
	for _, g := range b.Groups {
		flags = append(flags, "--group="+g)
	}
	for _, u := range b.Users {
		flags = append(flags, "--user="+u)
	}
	if len(flags) == 0 {
		return nil
	}
	grant, rest := "kubectl create clusterrolebinding kubehsm-renewals --clusterrole=kubehsm:ticket", ""
	if len(flags) > maxGranted {
		flags, rest = flags[:maxGranted], ", and the others in the same way"
	}
	for _, f := range flags {
		grant += " " + shell.Quote(f)
	}
	return hint.With(errors.New("people on the roster are not allowed to renew their certificates"),
		fmt.Sprintf("a cluster admin gives them the right with `%s`%s; if that binding exists, with `kubectl set subject "+
			"clusterrolebinding kubehsm-renewals` and the same groups and users", grant, rest))
}

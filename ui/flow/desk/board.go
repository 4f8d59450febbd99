package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// Stage is how far a token and its owner are. It is what the roster says, and what became
// of the owner's last request.
type Stage string

// The stages.
const (
	StageWaiting  Stage = "waiting"  // a request waits for a decision
	StageDenied   Stage = "denied"   // the last request was denied
	StageExpired  Stage = "expired"  // the certificate has ended
	StageExpiring Stage = "expiring" // the certificate ends within [ExpiringWithin]
	StageNotCome  Stage = "not come" // the token never had a certificate
	StageIn       Stage = "in"
	StageStock    Stage = "in stock"
	StageLost     Stage = "lost"
	StageRetired  Stage = "retired"
)

// Stages are all of them, those that need somebody first.
func Stages() []Stage {
	return []Stage{StageWaiting, StageDenied, StageExpired, StageExpiring, StageNotCome, StageIn, StageStock, StageLost,
		StageRetired}
}

// ExpiringWithin is the time before a certificate's end from which on its token is
// [StageExpiring]. A certificate of a week that renews itself has more left at any time.
const ExpiringWithin = 48 * time.Hour

// Board is the roster with the stages of its tokens.
type Board struct {
	// Tokens are in the order of [Stages], and then by owner.
	Tokens []RosterEntry `json:"tokens"`
	// Unknown is why no request was looked at, "" if all were: nothing is waiting or denied then.
	Unknown string `json:"unknown,omitempty"`
}

// Board reads the roster, and the requests of the owners, at now.
func (r Roster) Board(ctx context.Context, kubeContext string, now time.Time) (Board, error) {
	all, err := r.List(ctx, kubeContext)
	if err != nil {
		return Board{}, err
	}
	b := Board{Tokens: all}
	latest, err := r.latest(ctx, kubeContext, all)
	switch {
	case csr.IsForbidden(err):
		b.Unknown = "you may not list requests"
	case err != nil:
		return Board{}, err
	}
	for i := range all {
		all[i].Stage = all[i].stage(now)
	}
	for owner, v := range latest {
		tell(all, owner, v)
	}
	order := Stages()
	slices.SortStableFunc(all, func(a, b RosterEntry) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Stage), slices.Index(order, b.Stage)),
			strings.Compare(a.Owner, b.Owner),
			cmp.Compare(len(a.Serial), len(b.Serial)), strings.Compare(a.Serial, b.Serial)) // serials are numbers
	})
	return b, nil
}

// stage is the entry's by what the roster says alone.
func (e RosterEntry) stage(now time.Time) Stage {
	switch state := clusterapi.TokenState(e.State); {
	case state == clusterapi.Lost:
		return StageLost
	case state == clusterapi.Retired:
		return StageRetired
	case state == clusterapi.Stock:
		return StageStock
	case e.NotAfter == nil:
		return StageNotCome
	case !e.NotAfter.After(now):
		return StageExpired
	case e.NotAfter.Sub(now) <= ExpiringWithin:
		return StageExpiring
	}
	return StageIn
}

// latest is the last request of each user. A request that somebody else filed in a user's name is not
// theirs, see [theirs].
func (r Roster) latest(
	ctx context.Context,
	kubeContext string,
	tokens []RosterEntry,
) (map[string]request.View, error) {
	by, err := r.judge(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	all, err := r.requests.List(ctx, kubeContext, request.Filter{Signer: csr.ClientSigner})
	if err != nil {
		return nil, err
	}
	last := map[string]request.View{}
	for v, err := range all {
		if err != nil {
			return nil, err
		}
		if old, ok := last[v.User]; (!ok || v.Created.After(old.Created)) && theirs(v, by, tokens) {
			v.Object = nil // ten thousand of them are large
			last[v.User] = v
		}
	}
	return last, nil
}

// judge returns what judges attestations as the cluster's policy says, or, where there is no policy that
// can be read, by Yubico's roots: what is wrong with the policy is for the approver to say.
func (r Roster) judge(ctx context.Context, kubeContext string) (*judge.Judge, error) {
	c, err := openObjects(ctx, r.access, kubeContext)
	if err != nil {
		return nil, err
	}
	o, err := c.get(ctx, object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "EnrollmentPolicy",
		"metadata": map[string]any{"namespace": clusterapi.Namespace, "name": clusterapi.PolicyName}})
	switch {
	case isForbidden(err), apierrors.IsNotFound(err):
		return judge.New(clusterapi.PolicySpec{})
	case err != nil:
		return nil, err
	}
	var policy clusterapi.EnrollmentPolicy
	if err := o.into(&policy); err == nil {
		if j, err := judge.New(policy.Spec); err == nil {
			return j, nil
		}
	}
	return judge.New(clusterapi.PolicySpec{})
}

// theirs tells whether a request is its user's: they filed it, themselves or with a ticket for them, or
// its key is attested to be in a token of theirs.
func theirs(v request.View, by *judge.Judge, tokens []RosterEntry) bool {
	if v.Requester == v.User {
		return true
	}
	if terms, err := ticket.TermsOf(v.RequesterGroups); err == nil && v.TicketID() != "" {
		return terms.User == v.User
	}
	asked, err := judge.Read(v.Object)
	if err != nil {
		return false
	}
	s, err := by.Proven(asked)
	return err == nil && slices.ContainsFunc(tokens, func(e RosterEntry) bool {
		return e.Serial == s.Serial && e.Owner == v.User
	})
}

// tell writes what became of the owner's last request at the tokens that it can be for: those
// without a certificate that is good, or all that are in use if each has one.
func tell(all []RosterEntry, owner string, v request.View) {
	stage, why := StageWaiting, ""
	switch v.State {
	case csr.Pending.String():
	case csr.Denied.String(), csr.Failed.String():
		stage, why = StageDenied, strings.Join(slices.DeleteFunc([]string{v.Reason, v.Message},
			func(s string) bool { return s == "" }), ": ")
	default:
		return
	}
	for _, stages := range [][]Stage{{StageNotCome, StageExpired}, {StageIn, StageExpiring}} {
		found := false
		for i := range all {
			if e := &all[i]; e.Owner == owner && slices.Contains(stages, e.Stage) {
				e.Stage, e.Why, e.Request, found = stage, why, v.Name, true
			}
		}
		if found {
			return
		}
	}
}

// ErrNotListed: the roster has no such token, or none of that owner.
var ErrNotListed = errors.New("it is not on the roster")

// Named are the tokens that each of names means, in use or not: the one with that serial number, or
// all of that owner. Errors are [ErrNotListed].
func (b Board) Named(names []string) ([]RosterEntry, error) {
	var found []RosterEntry
	for _, name := range names {
		of := func(of func(RosterEntry) string) (hit []RosterEntry) {
			for _, e := range b.Tokens {
				if of(e) == name {
					hit = append(hit, e)
				}
			}
			return hit
		}
		hit := of(func(e RosterEntry) string { return e.Serial })
		if len(hit) == 0 && name != "" {
			hit = of(func(e RosterEntry) string { return e.Owner })
		}
		if len(hit) == 0 {
			return nil, hint.With(fmt.Errorf("%q: %w", name, ErrNotListed),
				"name a serial number or an owner as `kubehsm roster list` shows them")
		}
		for _, e := range hit {
			if !slices.ContainsFunc(found, func(f RosterEntry) bool { return f.Serial == e.Serial }) {
				found = append(found, e)
			}
		}
	}
	return found, nil
}

// inUse are the tokens on the cluster's roster that fit and may get a certificate, none where there is no roster. unseen
// says why nobody could look.
func (c *objects) inUse(ctx context.Context, fits func(RosterEntry) bool) (all []RosterEntry, unseen string, err error) {
	err = c.list(ctx, rosterObject(""), func(o object) {
		e := entryOf(o)
		if e.Owner != "" && e.State != string(clusterapi.Lost) && e.State != string(clusterapi.Retired) && fits(e) {
			all = append(all, e)
		}
	})
	if isForbidden(err) { // also where there is no roster
		_, served, ferr := readable(c.filed(ctx))
		if ferr == nil && served {
			unseen = "tokens on the roster: you may not list them"
		}
		err = ferr
	}
	if isUnserved(err) {
		err = nil
	}
	return all, unseen, err
}

// Leaving is what ends when people leave, or tokens are given back or lost.
type Leaving struct {
	Tokens []RosterEntry `json:"tokens"`
	// Tickets are those of the people. Unseen says which could not be looked for.
	Tickets []string `json:"tickets,omitempty"`
	Unseen  []string `json:"unseen,omitempty"`
}

// Leaving finds what ends: each of names is a token's serial number, or a person, who may have a ticket and no token yet.
// Errors are [ErrNotListed].
func (r Roster) Leaving(ctx context.Context, kubeContext string, names []string) (l Leaving, err error) {
	board, err := r.Board(ctx, kubeContext, time.Now())
	if err != nil {
		return l, err
	}
	at, err := r.access.Verified(ctx, kubeContext)
	if err != nil {
		return l, err
	}
	var listed []string
	for _, name := range names {
		_, err := board.Named([]string{name})
		person := Revocation{User: name, Server: at.Server}
		if !slices.ContainsFunc(board.Tokens, func(e RosterEntry) bool { return e.Serial == name }) {
			if err := NewRevocations(r.access.Env).lookUpTickets(ctx, kubeContext, &person); err != nil {
				return l, err
			}
		}
		if err != nil && len(person.Tickets) == 0 {
			return l, err
		}
		if err == nil {
			listed = append(listed, name)
		}
		l.Tickets, l.Unseen = append(l.Tickets, person.Tickets...), append(l.Unseen, person.Unseen...)
	}
	slices.Sort(l.Unseen)
	l.Unseen = slices.Compact(l.Unseen)
	l.Tokens, err = board.Named(listed)
	return l, err
}

// Leave ends the tickets, and makes the tokens retired, or lost. It returns how many tokens were changed.
func (r Roster) Leave(ctx context.Context, kubeContext string, l Leaving, lost bool) (changed int, err error) {
	for _, id := range l.Tickets {
		if err := r.requests.EndTicket(ctx, kubeContext, id); err != nil {
			return 0, fmt.Errorf("end the ticket %s: %w", id, err)
		}
	}
	return r.Remove(ctx, kubeContext, l.Tokens, lost)
}

// Remove makes tokens retired, or lost: keys in them get no further certificate. They stay on the
// roster, so that it still knows them. It returns how many were changed; a token that has another
// owner by now, or is in stock, is an error, and those after it stay as they are.
func (r Roster) Remove(ctx context.Context, kubeContext string, all []RosterEntry, lost bool) (changed int, err error) {
	c, err := openObjects(ctx, r.access, kubeContext)
	if err != nil {
		return 0, err
	}
	state := clusterapi.Retired
	if lost {
		state = clusterapi.Lost
	}
	for _, e := range all {
		o, err := c.get(ctx, rosterObject(e.Serial))
		if err != nil {
			return changed, errNoRoster(err)
		}
		now := entryOf(o)
		switch {
		case now.Owner != e.Owner:
			return changed, hint.With(fmt.Errorf("the token %s was given to %q meanwhile", e.Serial, now.Owner),
				"look at the roster again")
		case now.Owner == "":
			return changed, hint.With(fmt.Errorf("the token %s is in stock: nobody has it", e.Serial),
				"delete it with `kubectl -n "+clusterapi.Namespace+" delete hardwaretoken "+e.Serial+"`")
		case now.State == string(state):
			continue
		}
		spec, _ := o["spec"].(map[string]any)
		spec["state"] = string(state)
		if err := c.replace(ctx, o); err != nil {
			return changed, err
		}
		changed++
	}
	return changed, nil
}

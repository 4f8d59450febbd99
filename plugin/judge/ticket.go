package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// withTicket tells whether it was filed with a help desk's ticket.
func (t *trial) withTicket() bool {
	id, ok := strings.CutPrefix(t.Object.Spec.Username, bootstraptoken.UserPrefix)
	if ok = ok && slices.Contains(t.Object.Spec.Groups, ticket.Group); ok {
		t.Ticket = id
	}
	return ok
}

// byTicket judges what was filed with a ticket. The API server wrote the ticket's terms
// on the request, with the groups of its token.
func (t *trial) byTicket() (Decision, error) {
	terms, err := ticket.TermsOf(t.Object.Spec.Groups)
	switch {
	case errors.Is(err, ticket.ErrNoTerms) && t.Statement != nil: // the join line of the roster has no terms
		t.Ticket = ""
		return t.byRoster()
	case errors.Is(err, ticket.ErrNoTerms):
		return t.says(Person, ReasonTerms,
			"its bootstrap token has no ticket's terms, and its key is not attested: it needs an attested key, "+
				"or another ticket")
	case err != nil:
		return t.says(Deny, ReasonTerms, "the terms of its ticket were not written by kubehsm: "+err.Error())
	}
	t.Terms = &terms
	if wrong := t.Mismatches(terms); len(wrong) > 0 {
		return t.says(Deny, ReasonTerms, strings.Join(wrong, "; "))
	}
	if d, done := t.bounds(); done {
		return d, nil
	}
	if t.Statement == nil {
		return t.unprovenTicket(terms)
	}
	if wrong := KeyMismatches(terms, *t.Statement); len(wrong) > 0 {
		return t.says(Deny, ReasonTerms, strings.Join(wrong, "; "))
	}
	if d, done := t.device(); done {
		return d, nil
	}
	if t.Token, err = t.cluster.Token(t.Statement.Serial); err != nil {
		return t.Decision, err
	}
	if t.Token != nil {
		if d, done := t.inUse(); done {
			return d, nil
		}
		if owner := t.Token.Spec.Owner; owner != "" && owner != t.Subject.User {
			return t.says(Person, ReasonOwner, notOwned(t)+": an admin may give the token a second name")
		}
	}
	if d, done, err := t.used(); done || err != nil {
		return d, err
	}
	if d, done := t.ofDesk(); done {
		return d, nil
	}
	if terms.Serial == "" {
		return t.desk(ReasonUnproven,
			"its ticket names no token: nothing proves whose key this is; have the user read the eight words to you")
	}
	return t.says(Approve, ReasonTicket, "the key is proven to be in the token that its ticket names, "+terms.Serial)
}

// unprovenTicket is what becomes of a key that nothing proves.
func (t *trial) unprovenTicket(terms ticket.Terms) (Decision, error) {
	none := errors.Is(t.proof, attest.ErrNone)
	switch {
	case terms.Policy != 0 || !none && terms.Serial != "":
		return t.says(Deny, ReasonAttestation,
			fmt.Sprintf("its ticket asks for a key that is attested; nothing proves that it is: %v", t.proof))
	case !none && !errors.Is(t.proof, attest.ErrUnknownIssuer):
		return t.says(Deny, ReasonAttestation, "its attestation is not valid: "+t.proof.Error())
	}
	if d, done, err := t.used(); done || err != nil {
		return d, err
	}
	if d, done := t.ofDesk(); done {
		return d, nil
	}
	return t.desk(ReasonUnproven,
		fmt.Sprintf("nothing proves where its key is (%v): have the user read the eight words to you", t.proof))
}

// used tells whether the ticket was good for another request already. The one that was
// filed first has it, but for one whose key is proven to be in the ticket's token: no thief
// of the ticket gets in the way of that. Of two such requests the first approved has it.
func (t *trial) used() (Decision, bool, error) {
	uid, proven := t.Object.UID, t.Statement != nil && t.Terms.Serial != ""
	first, err := t.cluster.UsedFor(t.Ticket)
	if err != nil {
		return t.Decision, true, err
	}
	spent := first != "" && first != uid
	if t.Token != nil {
		spent = spent || slices.ContainsFunc(t.Token.Status.Tickets, func(u clusterapi.UsedTicket) bool {
			return u.ID == t.Ticket && u.Request != uid
		})
	}
	if spent {
		d, err := t.says(Deny, ReasonTicketUsed, "its ticket was used for another request")
		return d, true, err
	}
	mine, err := Version(t.Object)
	if err != nil {
		return t.Decision, true, err
	}
	for o, err := range t.cluster.Others(t.Object.Spec.Username, uid) {
		if err != nil {
			return t.Decision, true, err
		}
		if o.Approved || o.Version < mine && !proven {
			d, err := t.says(Deny, ReasonTicketUsed, "its ticket was already used for another request: "+o.Name)
			return d, true, err
		}
	}
	return t.Decision, false, nil
}

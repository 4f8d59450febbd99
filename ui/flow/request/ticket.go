package request

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// TicketLook says what a request is compared with.
type TicketLook struct {
	// Context is the kubeconfig context of the approver.
	Context string
	// Ticket is the ticket itself, if it is at hand; else its terms are read from
	// the request, or the token in the cluster.
	Ticket *ticket.Ticket
	// Roots are what attestations are traced to; none means Yubico's.
	Roots []*x509.Certificate
	// Must refuses what was filed without a ticket, or with one that nobody here
	// knows; else the former is no matter, and the latter a warning.
	Must bool

	// Known tells afterwards that the request was compared with a ticket.
	Known bool
	// Proven tells afterwards that the request's key is proven to be in the
	// token that the ticket names: no words need to be compared.
	Proven bool
	// ID is the ticket's, afterwards.
	ID string
}

// ticketCheck compares a request with the ticket that it was filed with.
func (q Requests) ticketCheck(look *TicketLook, accept []string) Check {
	return func(ctx context.Context, client *csr.Client, v *View) error {
		id := v.TicketID()
		if id == "" {
			if look.Must {
				v.Refuse("", nil, "it was not filed with a ticket")
			}
			return nil
		}
		look.ID, v.onlyWords = id, true
		terms, wrong, err := q.ticketTerms(ctx, look, v, id)
		if err != nil {
			return err
		}
		v.Ticket = terms
		if terms == nil && len(wrong) == 0 && !look.Must { // perhaps it is no ticket's, but somebody's bootstrap token
			v.Warnings = append(v.Warnings,
				"no ticket is known here that it was filed with; if its maker gave you the ticket, compare them: `kubehsm "+
					"helpdesk approve "+v.Name+" --ticket FILE`")
			return nil
		}
		if look.Known = terms != nil; look.Known {
			proven := false
			if asked, err := judge.Read(v.Object); err != nil {
				v.Refuse("", nil, "it cannot be read: "+err.Error())
			} else {
				var off []string
				off, proven = look.policyMismatches(*terms, asked, v)
				wrong = append(append(wrong, asked.Mismatches(*terms)...), off...)
			}
			look.Proven, v.onlyWords = proven, !proven
			if v.User == terms.User { // the ticket lets its holder ask in that name
				v.Warnings = slices.DeleteFunc(v.Warnings, func(w string) bool { return w == v.inName() })
			}
			if !proven && terms.Serial == "" {
				v.Warnings = append(v.Warnings, "nothing proves whose key this is: have "+v.User+" read the words to you")
			}
		} else if len(wrong) == 0 {
			wrong = append(wrong, "what its ticket allows is not known here: give the ticket with --ticket")
		}
		others, denied, err := otherRequests(ctx, client, v)
		switch {
		case csr.IsForbidden(err):
			wrong = append(wrong, "whether the same ticket has filed another request is not known: you may not list requests")
		case err != nil:
			return err
		}
		if len(others) > 0 {
			wrong = append(wrong, "the same ticket has filed another request too: "+strings.Join(others, ", "))
		}
		if len(denied) > 0 {
			v.Warnings = append(v.Warnings, "the same ticket has filed a request that was denied: "+strings.Join(denied, ", "))
		}
		v.Refuse(RiskMismatch, accept, wrong...)
		return nil
	}
}

// TicketID names the ticket that the request was filed with, "" if it was none.
func (v *View) TicketID() string {
	id, ok := strings.CutPrefix(v.Requester, bootstraptoken.UserPrefix)
	if !ok || !slices.Contains(v.RequesterGroups, ticket.Group) {
		return ""
	}
	return id
}

// ticketTerms are what the ticket with this ID allows, nil if nobody knows, and
// what is wrong with them. A ticket at hand counts only where nothing else tells,
// or tells the same: whoever was given a ticket can write one with other terms.
func (q Requests) ticketTerms(ctx context.Context, look *TicketLook, v *View, id string) (known *ticket.Terms,
	wrong []string, err error) {
	known, wrong, err = q.madeTerms(ctx, look, v, id)
	if err != nil || look.Ticket == nil {
		return known, wrong, err
	}
	given := look.Ticket.Terms
	switch {
	case look.Ticket.Token.ID() != id:
		return nil, nil, hint.With(
			fmt.Errorf("the request was filed with the ticket %q, this is %q: %w", id, look.Ticket.Token.ID(),
				enrolling.ErrTicket),
			"give the right one")
	case known != nil && known.Description() != given.Description():
		return nil, nil, hint.With(
			fmt.Errorf("the ticket %q was made for other terms than this one says: %w", id, enrolling.ErrTicket),
			"somebody has changed it: deny the request, and end the ticket with `kubehsm bootstrap-token delete "+id+"`")
	}
	return &given, wrong, nil
}

// madeTerms are those that the ticket was made with: by the request, on which the
// API server has written them, or by the token in the cluster; nil if neither says.
func (q Requests) madeTerms(ctx context.Context, look *TicketLook, v *View, id string) (*ticket.Terms, []string,
	error) {
	switch written, err := ticket.TermsOf(v.RequesterGroups); {
	case err == nil:
		return &written, nil, nil
	case errors.Is(err, ticket.ErrTerms):
		return nil, []string{fmt.Sprintf("the terms of its token %s were not written by kubehsm: %v", id, err)}, nil
	}
	terms, err := q.describedTerms(ctx, look.Context, id)
	return terms, nil, err
}

// describedTerms are those in the description of a token, nil for a token of
// another make and for who may not read it.
func (q Requests) describedTerms(ctx context.Context, kubeContext, id string) (*ticket.Terms, error) {
	tokens, err := q.access.BootstrapTokens(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	r, err := tokens.Get(ctx, id)
	if errors.Is(err, bootstraptoken.ErrForbidden) || errors.Is(err, bootstraptoken.ErrNotFound) ||
		errors.Is(err, bootstraptoken.ErrNotToken) {
		return nil, nil // the caller says what that means
	}
	if err != nil {
		return nil, err
	}
	defer r.Token.Wipe()
	terms, err := ticket.ParseDescription(r.Description)
	if err != nil {
		return nil, nil // a token of another make: the caller says what that means
	}
	return &terms, nil
}

// TermsWords says what a ticket is for. Names are quoted: they are of the
// ticket's maker.
func TermsWords(t ticket.Terms) string {
	words := []string{fmt.Sprintf("the user %q", t.User)}
	add := func(what, value string) {
		if value != "" {
			words = append(words, fmt.Sprintf("%s %q", what, value))
		}
	}
	add("in", strings.Join(t.Groups, ", "))
	if t.Lifetime != 0 {
		words = append(words, "for "+span.Of(t.Lifetime))
	}
	add("signed by", t.Signer)
	add("with a key that is", t.Policy.String())
	add("in the token", t.Serial)
	return strings.Join(words, ", ")
}

// policyMismatches are what of the key is not proven to be as the ticket asks.
// proven tells that it is proven to be in the token that the ticket names.
func (look *TicketLook) policyMismatches(t ticket.Terms, asked judge.Asked, v *View) (wrong []string, proven bool) {
	s, err := asked.Attested(attest.Verifier{Roots: look.Roots})
	if err != nil {
		if t.Policy != 0 {
			wrong = append(wrong, fmt.Sprintf("its ticket asks for a key that is %s; nothing proves that it is: %v",
				t.Policy, err))
		}
		if t.Serial != "" {
			v.Warnings = append(v.Warnings,
				fmt.Sprintf("its ticket is for the token %s; nothing proves that the key is in it: have the words read to you",
					t.Serial))
		}
		return wrong, false
	}
	return judge.KeyMismatches(t, s), t.Serial != "" && s.Serial == t.Serial
}

// otherRequests are those that the same requester has filed beside v: those that
// may still be used, or are, and those that were denied.
func otherRequests(ctx context.Context, client *csr.Client, v *View) (names, denied []string, err error) {
	for obj, err := range client.List(ctx, csr.ListOptions{}) { // no field selector for the requester
		if err != nil {
			return nil, nil, err
		}
		switch {
		case obj.Spec.Username != v.Requester || string(obj.UID) == v.UID:
		case csr.StateOf(obj).State == csr.Denied:
			denied = append(denied, obj.Name)
		default:
			names = append(names, obj.Name)
		}
	}
	return names, denied, nil
}

// EndTicket deletes the token of a ticket, if it is still there.
func (q Requests) EndTicket(ctx context.Context, kubeContext, id string) error {
	tokens, err := q.access.BootstrapTokens(ctx, kubeContext)
	if err != nil {
		return err
	}
	if err := tokens.Delete(ctx, id); !errors.Is(err, bootstraptoken.ErrNotFound) {
		return err
	}
	return nil
}

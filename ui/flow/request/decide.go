package request

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// ApproveFiled approves the request that ref names with the credential of another
// kubeconfig file. The request in the cluster must be the one that was filed:
// what is approved is what this program made, not what stands under its name.
// What was revoked in the cluster is refused, as by [Requests.Look], and so is a
// request of which the credential cannot tell: nobody is asked here.
func (q Requests) ApproveFiled(ctx context.Context, file string, ref csr.Ref, filed []byte) error {
	client, err := q.access.ClientOf(ctx, kubeconfig.Rules{Explicit: file}, "")
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	obj, err := client.Get(ctx, ref.Name)
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	if obj.UID != ref.UID || string(obj.Spec.Request) != string(filed) {
		return hinting.With(fmt.Errorf("request %s is not the one that was filed; it was not approved", ref.Name),
			"look at it with `kubehsm csr show` before anybody approves it")
	}
	if csr.StateOf(obj).State != csr.Pending {
		return nil // decided already; the wait tells how
	}
	v := ViewOf(obj)
	refusals, err := onList(&v, func() (revocation.List, error) {
		return q.access.RevokedOf(ctx, kubeconfig.Rules{Explicit: file}, "")
	})
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	if len(refusals) > 0 {
		return hinting.Withf(fmt.Errorf("request %s was not approved: %s", ref.Name, strings.Join(refusals, "; ")),
			"if you know the reason: `kubehsm csr approve %s --accept-risk=%s`, then run this command again",
			ref.Name, RiskRevoked)
	}
	if len(v.RightsUnknown) > 0 {
		return hinting.Withf(fmt.Errorf("request %s was not approved, because nobody could tell %s", ref.Name,
			strings.Join(v.RightsUnknown, "; ")),
			"look at it and decide: `kubehsm csr approve %s`, then run this command again", ref.Name)
	}
	_, err = client.Approve(ctx, obj, csr.Decision{Message: "approved together with the enrollment"})
	return err
}

// CheckApprover is the error that ApproveFiled is certain to meet, if any.
func (q Requests) CheckApprover(ctx context.Context, file, signer string) error {
	client, err := q.access.ClientOf(ctx, kubeconfig.Rules{Explicit: file}, "")
	if err == nil {
		err = client.Rights().CheckApprover(ctx, signer)
	}
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	return nil
}

// Check looks at one request for [Requests.Look], with the approver's
// client: it adds to the view's Warnings, and to its Refusals what must keep it
// from being approved. The error ends the look.
type Check func(ctx context.Context, client *csr.Client, v *View) error

// LookOptions says how closely one request is looked at.
type LookOptions struct {
	// Roots are what attestations are traced to; none means Yubico's.
	Roots []*x509.Certificate
	// ToDecide fails with a [*csr.ForbiddenError], which has the role to ask
	// for, if the caller may not decide on it.
	ToDecide bool
	// Ticket says how a request that was filed with a help desk's ticket is
	// compared with it; nil compares it with what is known here.
	Ticket *TicketLook
	// Accept are the risks that the approver accepts: [RiskMismatch], [RiskRevoked].
	Accept []string
	// Checks are made beside those of every look.
	Checks []Check
}

// Look reads one request and looks at it as an approver should: who asks,
// what the groups may do, what the attestation is worth.
func (q Requests) Look(ctx context.Context, kubeContext, name string, look LookOptions) (View, error) {
	client, err := q.access.Client(ctx, kubeContext)
	if err != nil {
		return View{}, err
	}
	obj, err := client.Get(ctx, name)
	if err != nil {
		return View{}, err
	}
	if look.ToDecide {
		if err := q.CheckDecider(ctx, kubeContext, obj.Spec.SignerName); err != nil {
			return View{}, err
		}
	}
	v := ViewOf(obj)
	v.judge(attest.Verifier{Roots: look.Roots})
	of := look.Ticket
	if of == nil {
		of = &TicketLook{Context: kubeContext, Roots: look.Roots}
	}
	checks := []Check{
		rightsCheck,
		q.reviewCheck(kubeContext),
		q.ticketCheck(of, look.Accept),
		q.revokedCheck(kubeContext, look.Accept),
	}
	for _, check := range append(checks, look.Checks...) {
		if err := check(ctx, client, &v); err != nil {
			return View{}, err
		}
	}
	return v, nil
}

// rightsCheck looks up what the certificate would allow.
func rightsCheck(ctx context.Context, client *csr.Client, v *View) error {
	if v.User == "" || !strings.HasPrefix(v.SignerName, "kubernetes.io/") {
		return nil // RBAC knows only the certificates of the cluster's own signers
	}
	g, err := client.Rights().GrantsOf(ctx, csr.Subject{User: v.User, Groups: v.Groups})
	if err != nil {
		return err
	}
	for _, x := range g.List {
		v.Rights = append(v.Rights, x.String())
	}
	v.RightsUnknown = g.Unknown
	if g.Everything {
		v.Warnings = append(v.Warnings,
			"the certificate allows everything in the cluster: its user or one of its groups is cluster-admin")
	}
	return nil
}

// BreakGlassGroup may do everything, for an hour: its requests take a second person.
const BreakGlassGroup = judge.BreakGlassGroup

// DecideOptions say what is decided on a request.
type DecideOptions struct {
	Approve bool
	csr.Decision
	// Own allows to approve what one asked for oneself.
	Own bool
	// Words are what the requester read out, to be compared with the key's; ""
	// compares nothing.
	Words string
	// User is the user's name as the approver has typed it: beside Words the other way to approve a
	// request with warnings, see [View.Nameable].
	User string
}

// Options are the options of the decision: its message and reason and, of an approval, the words and whether
// it may be of one's own request.
func (o *DecideOptions) Options() []verb.Option {
	options := []verb.Option{
		{Flag: "message", Into: &o.Message, Usage: "message kept with the decision, a `text`",
			Label: "Message", Empty: "none", Note: "A sentence, kept with the decision."},
		{Flag: "reason", Into: &o.Reason, Usage: "reason kept with the decision, one `word` in CamelCase"},
	}
	if !o.Approve {
		return options
	}
	return append(options,
		verb.Option{Flag: "words", Into: &o.Words, Usage: "eight `words` that the requester reads to you; other keys are refused",
			Label: "Words", Empty: "not compared", Note: "The words of the key, as the requester reads them out over the " +
				"phone. They are compared, and a wrong one refuses."},
		verb.Option{Flag: "own", Into: &o.Own, Usage: "approve a request of your own", Label: "If yours",
			Choices: []verb.Choice{
				{Value: "false", Label: "refuse", Clause: "somebody else looks at what you asked for yourself"},
				{Value: "true", Label: "approve", Clause: "nobody else has looked at it then"}}})
}

// ErrWords: the words that were read out are another key's.
var ErrWords = errors.New("these are not the words of the key in the request")

// Decide approves or denies the request that seen shows: if it was changed,
// replaced or decided since, nothing is done.
func (q Requests) Decide(ctx context.Context, kubeContext string, seen View, o DecideOptions) (View, error) {
	client, err := q.access.Client(ctx, kubeContext)
	if err != nil {
		return View{}, err
	}
	me, err := client.Rights().WhoAmI(ctx)
	if err != nil && !errors.Is(err, csr.ErrNotServed) { // before Kubernetes 1.28 nobody can tell
		return View{}, err
	}
	if o.Approve {
		if err := mayApprove(me, seen, o); err != nil {
			return View{}, err
		}
	}
	switch message := strings.TrimSpace(o.Message); { // the request itself does not say who decided
	case me.User == "":
	case message == "":
		o.Message = "by " + me.User
	default:
		o.Message = message + " (by " + me.User + ")"
	}
	obj, err := q.carryOut(ctx, kubeContext, client, seen.Object, o, me.User)
	if err != nil {
		return View{}, err
	}
	return ViewOf(obj), nil
}

// carryOut decides, or, where the approver runs, has it done by who may not.
func (q Requests) carryOut(ctx context.Context, kubeContext string, client *csr.Client,
	seen *certificatesv1.CertificateSigningRequest, o DecideOptions, me string) (*certificatesv1.CertificateSigningRequest,
	error) {
	may := client.Rights().CheckApprover(ctx, seen.Spec.SignerName)
	var forbidden *csr.ForbiddenError
	if may != nil && !errors.As(may, &forbidden) {
		return nil, may
	}
	if may != nil && csr.StateOf(seen).State == csr.Pending {
		all, err := q.reviews(ctx, kubeContext)
		if err != nil {
			return nil, err
		}
		if _, err := all.of(ctx, seen); err == nil {
			return all.byReview(ctx, client, seen,
				clusterapi.PersonDecision{Approve: o.Approve, By: me, Reason: o.Reason, Message: o.Message})
		}
	}
	if o.Approve {
		return client.Approve(ctx, seen, o.Decision)
	}
	return client.Deny(ctx, seen, o.Decision)
}

// CheckDecider is the [*csr.ForbiddenError] that a decision on requests for signer is
// certain to meet, if any: who may not approve may decide on reviews, where there are any.
func (q Requests) CheckDecider(ctx context.Context, kubeContext, signer string) error {
	client, err := q.access.Client(ctx, kubeContext)
	if err != nil {
		return err
	}
	err = client.Rights().CheckApprover(ctx, signer)
	var forbidden *csr.ForbiddenError
	if !errors.As(err, &forbidden) {
		return err
	}
	all, reviewErr := q.reviews(ctx, kubeContext)
	if reviewErr != nil {
		return reviewErr
	}
	none := &certificatesv1.CertificateSigningRequest{}
	none.Name, none.Spec.SignerName = "none", signer
	if _, reviewErr = all.of(ctx, none); reviewErr != nil {
		return err
	}
	return nil
}

// Warned tells whether an approver is warned of the request: a yes is not enough then, see
// [DecideOptions.Answer].
func (v *View) Warned() bool { return len(v.Warnings) > 0 || !v.Attested }

// Nameable tells whether an approver may type the user's name in answer to the warnings, in place of
// the key's words: it proves nothing of the key, and some names show as what they are not.
func (v *View) Nameable() bool {
	return !v.onlyWords && v.User != "" && utf8.RuneCountInString(v.User) <= maxNameable &&
		strings.Join(strings.Fields(v.User), " ") == v.User && !strings.ContainsFunc(v.User, func(r rune) bool {
		return !unicode.IsPrint(r) || r == utf8.RuneError ||
			// Runes that are shown as nothing.
			unicode.In(r, unicode.M, unicode.Other_Default_Ignorable_Code_Point, unicode.Braille,
				unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko) // turn what is beside them
	})
}

// maxNameable is the number of characters up to which a name is read as a whole.
const maxNameable = 64

// Answer takes what the approver has typed in answer to the request's warnings: the key's words, or the
// user's name. It tells whether it was one of them.
func (o *DecideOptions) Answer(v View, typed string) bool {
	typed = strings.TrimSpace(typed)
	switch {
	case v.Nameable() && typed == v.User:
		o.User = typed
	case csr.SameWords(typed, v.Words) && len(v.Words) > 0:
		o.Words = typed
	default:
		return false
	}
	return true
}

// AnswersTo says what [DecideOptions.Answer] takes, a clause.
func AnswersTo(v View) string {
	if v.Nameable() {
		return "the eight words as they are read to you, or the user's name, " + v.User
	}
	return "the eight words as they are read to you"
}

// unanswered is the error of an approval that does not answer the request's warnings. Where a person is
// there the answer was asked for.
func (v *View) unanswered(o DecideOptions) error {
	if !v.Warned() || o.Words != "" || o.User == v.User && v.Nameable() {
		return nil
	}
	risk := RiskUser + v.User
	mend := "read the warnings; then approve it in a terminal, or with --words and the eight words that are read to you"
	if v.Nameable() && !strings.ContainsAny(risk, `,"`) { // the flag takes a list
		mend += ", or with --accept-risk " + shell.Quote(risk)
	}
	return hsm.FromCode(hsm.ErrorCode(hsm.ErrNoTerminal),
		"request "+v.Name+" was not approved: it has warnings, and nobody has answered them", mend)
}

func mayApprove(me csr.Identity, seen View, o DecideOptions) error {
	if len(seen.Refusals) > 0 {
		hint := "deny it with `kubehsm csr deny " + seen.Name + "`, and have the requester file another"
		if len(seen.Risks) > 0 {
			hint += "; if you know the reason, approve it with `kubehsm csr approve " + seen.Name + " --accept-risk=" +
				strings.Join(seen.Risks, ",") + "`"
		}
		return hinting.With(fmt.Errorf("request %s was not approved: %s", seen.Name, strings.Join(seen.Refusals, "; ")), hint)
	}
	if o.Words != "" && !csr.SameWords(o.Words, seen.Words) {
		return hinting.With(fmt.Errorf("request %s was not approved: %w", seen.Name, ErrWords),
			"have them read out once more; if they differ again, somebody else has filed this request: deny it")
	}
	if !o.Own && me.User != "" && (me.User == seen.Requester || me.User == seen.User) {
		hint := "let somebody else look at it, or insist with --own"
		if slices.Contains(seen.Groups, BreakGlassGroup) {
			hint = "break-glass takes a second person: let them look at it"
		}
		return hinting.With(fmt.Errorf("request %s is your own (%s)", seen.Name, me.User), hint)
	}
	return seen.unanswered(o)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/request"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/present"
)

// risk is the value of --accept-risk: the serial of the token that may be erased, given in advance.
type risk struct{ value string }

const riskPrefix = "serial:"

func (r *risk) bind(f *pflag.FlagSet) {
	f.StringVar(&r.value, "accept-risk", "", "accept the loss of what is on the token `serial:NUMBER`, instead of "+
		"typing its serial")
}

func (r *risk) accepts(serial string) (bool, error) {
	if r.value == "" {
		return false, nil
	}
	named, ok := strings.CutPrefix(r.value, riskPrefix)
	if !ok {
		return false, ui.Usagef("--accept-risk: %q does not name a token as serial:NUMBER", r.value)
	}
	if named != serial {
		return false, ui.Usagef("--accept-risk names the token with serial %q, but this one's is %q; nothing was "+
			"changed",
			named, serial)
	}
	return true, nil
}

type approvalRisks []string

func (r *approvalRisks) bind(f *pflag.FlagSet) {
	f.StringSliceVar((*[]string)(r), "accept-risk", nil,
		"accept a `risk`: mismatch approves a request that does not match its ticket; revoked approves one for a "+
			"user, key or certificate revoked in the cluster or from this computer; user:NAME approves one with "+
			"warnings for that user")
	annotate(f, flagChoices, []string{request.RiskMismatch, request.RiskRevoked, request.RiskUser}, "accept-risk")
}

func (r approvalRisks) check() error {
	for _, risk := range r {
		if risk != request.RiskMismatch && risk != request.RiskRevoked && !strings.HasPrefix(risk, request.RiskUser) {
			return ui.Usagef("--accept-risk: %q is not a risk of an approval; use %s, %s or %sNAME", risk,
				request.RiskMismatch, request.RiskRevoked, request.RiskUser)
		}
	}
	return nil
}

// user is the user given in advance, if the request is for that user.
func (r approvalRisks) user(seen request.View) (string, error) {
	user := ""
	for _, risk := range r {
		named, ok := strings.CutPrefix(risk, request.RiskUser)
		switch {
		case !ok:
		case named != seen.User:
			return "", ui.Usagef("--accept-risk names the user %q, but the request is for %q; it was not approved", named,
				seen.User)
		default:
			user = named
		}
	}
	return user, nil
}

const yesUsage = "do not ask; where there are warnings, needs --words or --accept-risk too"

// approves asks whether to approve the request. A request with warnings needs an answer that
// [request.DecideOptions.Answer] takes, or the flags for it. A refused request is not asked about.
func (a *app) approves(ctx context.Context, seen request.View, d *decision, question string) (err error) {
	if d.User, err = d.risks.user(seen); err != nil || len(seen.Refusals) > 0 {
		return err
	}
	p := hsm.ConfirmPrompt{Question: question}
	if seen.Warned() && d.Words == "" && d.User == "" {
		if d.yes {
			return nil // --yes answers no warning: the decision fails, with a hint
		}
		p.Typed = func(typed string) bool { return d.Answer(seen, typed) }
		p.Wanted = request.AnswersTo(seen)
	}
	err = a.confirmed(ctx, d.yes, p)
	if p.Typed != nil && errors.Is(err, hsm.ErrNoTerminal) {
		return nil
	}
	return err
}

// accepting answers the typed confirmation that was given in advance, and no other question: the
// last try of a PIN needs its own yes.
func accepting(p hsm.Prompter, typed string) hsm.Prompter {
	next := ask.From(p)
	return ask.Func(func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.Confirm != nil && q.Confirm.Accepts(typed) {
			return ask.Answer{Yes: true}, nil
		}
		return next(ctx, q)
	})
}

func (r *risk) prompter(p hsm.Prompter, l token.Loss) (hsm.Prompter, error) {
	yes, err := r.accepts(l.Serial())
	if err != nil || !yes {
		return typed(p), err
	}
	return accepting(p, l.Serial()), nil
}

func typed(p hsm.Prompter) hsm.Prompter {
	next := ask.From(p)
	return ask.Func(func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		a, err := next(ctx, q)
		if q.Confirm != nil && q.Confirm.Type != "" && errors.Is(err, hsm.ErrNoTerminal) {
			err = hint.With(err,
				"run it in a terminal, or with --accept-risk="+riskPrefix+q.Confirm.Type+" once you know what is lost")
		}
		return a, err
	})
}

func (a *app) confirmLoss(ctx context.Context, r *risk, l token.Loss, detail, question string) error {
	if err := a.lossWords(l); err != nil {
		return err
	}
	p, err := r.prompter(a.prompter(), l)
	if err != nil {
		return err
	}
	yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Detail: detail, Question: question, Type: l.Serial(), Short: l.Short})
	if err == nil && !yes {
		err = fmt.Errorf("%w: nothing was changed", hsm.ErrCancelled)
	}
	return err
}

func (a *app) lossWords(l token.Loss) error {
	w := a.err()
	for _, line := range present.Loss(l) {
		w.block(line)
	}
	return w.flush()
}

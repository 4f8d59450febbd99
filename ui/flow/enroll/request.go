package enroll

import (
	"context"
	"crypto"
	"errors"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/renewing"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/plugin/judge"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// fileRequest signs the PKCS#10 on the token and files it, or finds it filed.
func (r *attempt) fileRequest(ctx context.Context) (outcome, error) {
	have, err := r.haveCertificate()
	if err != nil {
		return outcome{}, err
	}
	if have != nil {
		return outcome{message: "already issued", reused: true}, nil
	}
	client, err := r.client(ctx)
	if err != nil {
		return outcome{}, err
	}
	if r.record.Request.UID != "" {
		filed, err := r.stillFiled(ctx, client)
		if err == nil && filed {
			err = renewals{r.env}.share(r.record)
		}
		if err != nil || filed {
			return outcome{message: r.record.Request.Name, reused: true}, r.record.ExpiredToken(err)
		}
	}
	if len(r.record.Request.Spec.Request) == 0 {
		if err := r.signRequest(ctx); err != nil {
			return outcome{}, err
		}
	}
	if err := (renewals{r.env}).carryPresent(r.record); err != nil {
		return outcome{}, err
	}
	_, err = request.File(ctx, client, &r.record.Request, r.record.Options.Renewal != nil)
	if lacks, ok := errors.AsType[*csr.ForbiddenError](err); ok && r.record.OtherFiler() != "" {
		err = hinting.With(err, lacks.Hint()+"; or "+r.record.OtherFiler())
	}
	if err != nil {
		return outcome{}, err
	}
	return outcome{message: r.record.Request.Name}, renewals{r.env}.share(r.record)
}

// stillFiled tells whether the request on record is there and not at a dead
// end; if not, it is forgotten so that a new one is filed.
func (r *attempt) stillFiled(ctx context.Context, client *csr.Client) (bool, error) {
	obj, err := client.Get(ctx, r.record.Request.Name)
	switch {
	case errors.Is(err, csr.ErrNotFound):
		r.note("the request %s was gone; a new one was filed", r.record.Request.Name)
	case err != nil:
		return false, err
	case string(obj.UID) != r.record.Request.UID:
		r.note("the request %s was replaced by somebody; a new one was filed", r.record.Request.Name)
	default:
		refused := csr.StateOf(obj).Err()
		if refused == nil {
			return true, nil
		}
		if before, err := reported(r.env, r.record); err != nil {
			return false, err
		} else if !before {
			return false, endHint(r.record, refused)
		}
		r.progress(enrolling.StepRequest, "%v; a new one is filed", refused)
		r.note("the earlier request %s ended: %v; a new one was filed", r.record.Request.Name, refused)
	}
	r.record.Request.Forget()
	return false, enrolling.NewStore(r.env).Save(r.record)
}

// reported tells whether a run has reported the end of the request on record before, and
// records that this one does: people hear of it before another request is filed.
func reported(e *env.Env, j *enrolling.Progress) (before bool, err error) {
	if j.Reported == j.Request.UID {
		return true, nil
	}
	j.Reported = j.Request.UID
	return false, enrolling.NewStore(e).Save(j)
}

// endHint says how to go on from a request that was denied, or refused by the signer.
func endHint(j *enrolling.Progress, refused error) error {
	if denied, ok := errors.AsType[*csr.DeniedError](refused); ok && denied.Status.Reason == judge.ReasonRevoked {
		return hinting.With(refused, "ask who revoked it, or a cluster admin")
	}
	if o := j.Options; o.Renewal == nil && o.Join != nil && o.Join.Ticket != "" {
		return hinting.Withf(refused,
			"%s, with another ticket if the help desk has ended yours: `%s --ticket -`", hinting.Of(refused), o.Resume())
	}
	return hinting.Withf(refused, "%s: `%s`", hinting.Of(refused), j.Options.Resume())
}

func (r *attempt) signRequest(ctx context.Context) error {
	err := r.withPIN(ctx, "sign the certificate request", func(p hsm.Prompter) error {
		signer, err := r.token.Signer(ctx, r.record.Request.Key, r.public, p)
		if err != nil {
			return err
		}
		return r.signRequestWith(ctx, signer)
	})
	if err == nil {
		err = r.signRecord(ctx)
	}
	if err != nil {
		return err
	}
	return enrolling.NewStore(r.env).Save(r.record)
}

func (r *attempt) signRequestWith(ctx context.Context, signer crypto.Signer) error {
	r.record.Options.TakeTerms(r.given)
	r.record.Request.Server = r.record.Cluster.Server
	unattested, err := request.Sign(ctx, r.token, r.info.Can, signer, &r.record.Options, &r.record.Request)
	if errors.Is(err, hsm.ErrNoKey) { // the key was hidden, or only its public half was seen, before the PIN
		return hinting.With(err, "the token has no private key for it; use another --key or another --name")
	}
	if err != nil {
		return err
	}
	if unattested != nil {
		r.note("the request carries no attestation: %v", unattested)
	}
	return nil
}

// signRecord has the key sign the record of the enrollment, while it is open for the request, unless it has.
func (r *attempt) signRecord(ctx context.Context) error {
	en, err := recorded(r.env, r.record)
	if err != nil {
		return err
	}
	if _, err := en.Version(); err == nil {
		return nil
	}
	return r.withPIN(ctx, "sign the record of the enrollment", func(p hsm.Prompter) error {
		key, err := r.token.Signer(ctx, en.Key, r.public, p)
		if err != nil {
			return err
		}
		en, err = en.SignedBy(key, time.Now())
		r.record.Signed = en.Signed
		return err
	})
}

// signedPolicy is the policy that the key of e has signed. Without that it is the strictest one: what stands in the file
// may be another program's.
func signedPolicy(e enrollment.Enrollment) (consent.Mode, []consent.Rule) {
	v, err := e.Signed.Open(e.KeyHash)
	if err != nil {
		return consent.Always, nil
	}
	return v.Policy, v.Rules
}

// recorded is the enrollment of j as it is stored: with the policy of the one whose place it takes, or whose spare
// it is, and with what its key has signed. A spare stays one of the key that it has signed to be a spare of.
func recorded(e *env.Env, j *enrolling.Progress) (en enrollment.Enrollment, err error) {
	en = j.Enrollment()
	en.Signed = j.Signed
	old, err := e.Enrollments().Load(en.Name)
	switch {
	case err == nil:
		en.Created = old.Created
		en.Policy, en.Rules = signedPolicy(old)
		if en.SpareOf != "" {
			v, err := old.Version()
			if err != nil {
				return en, err
			}
			en.SpareOf, en.SpareOfKey = v.SpareOf, v.SpareOfKey
		}
		if old.KeyHash == en.KeyHash && old.Signed.Later(en.Signed, en.KeyHash) {
			en.Signed = old.Signed
		}
	case en.SpareOf != "":
		of, err := e.Enrollments().Load(en.SpareOf)
		if err != nil {
			return en, err
		}
		en.SpareOfKey = of.KeyHash
		en.Policy, en.Rules = signedPolicy(of)
	}
	en.Cluster, err = settleProxy(en.Cluster)
	return en, err
}

// awaitApproval approves the request where that was asked for, and waits for
// the certificate.
func (r *attempt) awaitApproval(ctx context.Context) (outcome, error) {
	if len(r.record.Certificate) > 0 {
		return outcome{message: "already issued", reused: true}, nil
	}
	client, err := r.client(ctx)
	if err != nil {
		return outcome{}, err
	}
	if with := r.record.Options.ApproveWith; with != "" {
		r.progress(enrolling.StepApproval, "approving as %s", with)
		if err := request.NewRequests(r.env).ApproveFiled(ctx, with, r.record.Request.Ref(),
			r.record.Request.Spec.Request); err != nil {
			return outcome{}, err
		}
	}
	if r.record.Options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.record.Options.Timeout)
		defer cancel()
	}
	var approval *enrolling.Approval
	if r.record.Options.ApproveWith == "" {
		name := r.record.Request.Name
		approval = &enrolling.Approval{Request: name, Command: request.Approving(name)}
		if o := r.record.Options; o.Renewal == nil && o.Join != nil && o.Join.Ticket != "" {
			approval.Command, approval.Ticket = "kubehsm helpdesk approve "+name, true
		}
		if words, err := csr.FingerprintWords(r.record.Request.KeyHash); err == nil {
			approval.Words = strings.Join(words, " ")
		}
	}
	stop := r.lockWithAgent(ctx)
	status, err := client.Wait(ctx, r.record.Request.Ref(), func(s csr.Status) {
		e := enrolling.Event{Step: enrolling.StepApproval, State: enrolling.StepRunning,
			Message: request.StatusLine(r.record.Request.Name, s)}
		if s.State == csr.Pending {
			e.Approval = approval
		}
		r.report(e)
	})
	stop()
	if err != nil {
		if refused := status.Err(); refused != nil {
			_, saved := reported(r.env, r.record)
			return outcome{}, errors.Join(endHint(r.record, err), saved)
		}
		if hint := endlessHint(ctx, client, r.record.Options.SignerName, r.env.Finishing, err); hint != "" {
			return outcome{}, hinting.With(err, hint)
		}
		return outcome{}, waitHint(r.record, r.record.ExpiredToken(err))
	}
	got, err := csr.Collect(status.Object, csr.Want{PublicKey: r.public, Request: r.record.Request.Spec.Request})
	if err != nil {
		return outcome{}, err
	}
	for _, n := range got.Notes {
		r.note("%s", n)
	}
	learn := func(known *enrollment.Renewal) { renewing.Learn(known, status) }
	if err := (renewals{r.env}).change(r.record, learn); err != nil {
		return outcome{}, err
	}
	r.record.Certificate, r.roots = got.PEM, client.ControlPlane().AcceptedRoots(ctx)
	return outcome{message: "issued, valid until " + expiry.Day(got.Leaf.NotAfter)}, nil
}

// waitHint says how to go on after a wait that came to no end.
func waitHint(j *enrolling.Progress, err error) error {
	if interrupted(err) || errors.Is(err, hsm.ErrCancelled) {
		return hinting.Withf(err, "nothing is lost: `%s` continues from here", j.Options.Resume())
	}
	return err
}

func interrupted(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// endlessHint is the hint for a wait that was left and could come to no end, "" if
// it may go on.
func endlessHint(ctx context.Context, client *csr.Client, signer string, finishing hsm.Finishing, err error) string {
	if !interrupted(err) {
		return ""
	}
	over, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	defer finishing.Begin()()
	why := client.ControlPlane().SignsNever(over, signer)
	if why == "" {
		return ""
	}
	return "waiting longer does not help: " + why +
		"; ask for another signer of this cluster with --restart and --signer-name"
}

package enroll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
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
	if r.j.RequestUID != "" {
		filed, err := r.stillFiled(ctx, client)
		if err != nil || filed {
			return outcome{message: r.j.RequestName, reused: true}, r.j.ExpiredToken(err)
		}
	}
	if len(r.j.Request) == 0 {
		if err := r.signRequest(ctx); err != nil {
			return outcome{}, err
		}
	}
	return r.file(ctx, client)
}

// stillFiled tells whether the request on record is there and not at a dead
// end; if not, it is forgotten so that a new one is filed.
func (r *attempt) stillFiled(ctx context.Context, client *csr.Client) (bool, error) {
	obj, err := client.Get(ctx, r.j.RequestName)
	switch {
	case errors.Is(err, csr.ErrNotFound):
		r.note("the request %s was gone; a new one was filed", r.j.RequestName)
	case err != nil:
		return false, err
	case string(obj.UID) != r.j.RequestUID:
		r.note("the request %s was replaced by somebody; a new one was filed", r.j.RequestName)
	default:
		refused := csr.StateOf(obj).Err()
		if refused == nil {
			return true, nil
		}
		if told, err := r.told(); err != nil {
			return false, err
		} else if !told {
			return false, endHint(r.j, refused)
		}
		r.progress(enrolling.StepRequest, "%v; a new one is filed", refused)
		r.note("the earlier request %s ended: %v; a new one was filed", r.j.RequestName, refused)
	}
	r.j.RequestName, r.j.RequestUID, r.j.Request = "", "", nil
	return false, enrolling.NewStore(r.env).Save(r.j)
}

// told tells whether a run has reported the end of the request on record before, and
// records that this one does: people hear of it before another request is filed.
func (r *attempt) told() (before bool, err error) {
	if before = r.j.Told == r.j.RequestUID; before {
		return true, nil
	}
	r.j.Told = r.j.RequestUID
	return false, enrolling.NewStore(r.env).Save(r.j)
}

// endHint says how to go on from a request that was denied, or refused by the signer.
func endHint(j *enrolling.Progress, refused error) error {
	if o := j.Options; o.Renewal == nil && o.Join != nil && o.Join.Ticket != "" {
		return hinting.Withf(refused, "%s, with another ticket if the help desk has ended yours: `%s --ticket -`", hinting.Of(refused), o.Resume())
	}
	return hinting.Withf(refused, "%s: `%s`", hinting.Of(refused), j.Options.Resume())
}

func (r *attempt) signRequest(ctx context.Context) error {
	signer, err := r.token.Signer(ctx, r.j.Key, r.public, r.asking("sign the certificate request"))
	if err != nil {
		return err
	}
	r.j.Options.TakeTerms(r.given)
	o := r.j.Options
	with := csr.RequestOptions{SignerName: o.SignerName}
	if err := o.AltNames.Into(&with); err != nil {
		return err
	}
	if !o.NoAttestation {
		var why error
		if with.ExtraExtensions, why, err = request.Attestation(ctx, r.token, r.info.Can, r.j.Key); err != nil {
			return fmt.Errorf("attest the key: %w", err)
		}
		if err := o.Join.RefusePolicy(why == nil, why); err != nil {
			return err
		}
		if why != nil {
			r.note("the request carries no attestation: %v", why)
		}
	}
	pem, err := csr.NewRequest(signer, csr.Subject{User: o.User, Groups: o.Groups}, with)
	if errors.Is(err, hsm.ErrNoKey) { // it was hidden, or a public object stood for it, until the PIN was given
		return hinting.With(err, "the token has no private key for it; use another --key or another --name")
	}
	if err != nil {
		return err
	}
	r.pins.prove()
	r.j.Request, r.j.RequestName = pem, csr.RequestName(o.User, r.j.KeyHash)
	return enrolling.NewStore(r.env).Save(r.j)
}

func (r *attempt) file(ctx context.Context, client *csr.Client) (outcome, error) {
	obj, err := client.Create(ctx, r.j.Spec())
	if csr.IsForbidden(err) {
		// An admin may have filed it in our stead.
		if got, getErr := client.Get(ctx, r.j.RequestName); getErr == nil && string(got.Spec.Request) == string(r.j.Request) {
			obj, err = got, nil
		}
	}
	if csr.IsForbidden(err) {
		text, textErr := csr.AdminCommand(r.j.Spec())
		if textErr != nil {
			return outcome{}, errors.Join(err, textErr)
		}
		return outcome{}, &request.SendToAdmin{Err: err, Text: text, Or: r.j.OtherFiler()}
	}
	if err != nil {
		return outcome{}, err
	}
	r.j.RequestUID = string(obj.UID)
	return outcome{message: r.j.RequestName}, nil
}

// awaitApproval approves the request where that was asked for, and waits for
// the certificate.
func (r *attempt) awaitApproval(ctx context.Context) (outcome, error) {
	if len(r.j.Certificate) > 0 {
		return outcome{message: "already issued", reused: true}, nil
	}
	client, err := r.client(ctx)
	if err != nil {
		return outcome{}, err
	}
	if with := r.j.Options.ApproveWith; with != "" {
		r.progress(enrolling.StepApproval, "approving as %s", with)
		if err := request.NewRequests(r.env).ApproveFiled(ctx, with, r.j.Cluster.Server, r.j.Ref(), r.j.Request); err != nil {
			return outcome{}, err
		}
	}
	if r.j.Options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.j.Options.Timeout)
		defer cancel()
	}
	if words, err := csr.FingerprintWords(r.j.KeyHash); err == nil && r.j.Options.ApproveWith == "" {
		r.progress(enrolling.StepApproval, "if the approver asks, the key's words are: %s", strings.Join(words, " "))
	}
	status, err := client.Wait(ctx, r.j.Ref(), func(s csr.Status) {
		r.progress(enrolling.StepApproval, "%s", request.StatusLine(r.j.RequestName, s))
	})
	if err != nil {
		if refused := status.Err(); refused != nil {
			_, saved := r.told()
			return outcome{}, errors.Join(endHint(r.j, err), saved)
		}
		if hint := vainWait(ctx, client, r.j.Options.SignerName, r.env.Finishing, err); hint != "" {
			return outcome{}, hinting.With(err, hint)
		}
		return outcome{}, waitHint(r.j, r.j.ExpiredToken(err))
	}
	got, err := csr.Collect(status.Object, csr.Want{PublicKey: r.public, Request: r.j.Request})
	if err != nil {
		return outcome{}, err
	}
	for _, n := range got.Notes {
		r.note("%s", n)
	}
	r.j.Certificate, r.roots = got.PEM, client.ControlPlane().AcceptedRoots(ctx)
	return outcome{message: "issued, valid until " + expiry.Day(got.Leaf.NotAfter)}, nil
}

// waitHint says how to go on after a wait that came to no end.
func waitHint(j *enrolling.Progress, err error) error {
	if interrupted(err) {
		return hinting.Withf(err, "nothing is lost: `%s` goes on from here", j.Options.Resume())
	}
	return err
}

func interrupted(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// vainWait is the hint for a wait that was left and could come to no end, "" if
// it may go on.
func vainWait(ctx context.Context, client *csr.Client, signer string, finishing hsm.Finishing, err error) string {
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
	return "waiting longer does not help: " + why + "; ask for another signer of this cluster with --restart and --signer-name"
}

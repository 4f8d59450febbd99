package enroll

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/apierror"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
)

// Review works out what [Enroller.Enroll] would do. Nothing is changed, no PIN is
// asked for.
func (n Enroller) Review(ctx context.Context, o enrolling.Options) (Review, error) {
	asked := o
	o, err := n.Complete(ctx, o)
	if err != nil {
		return Review{Options: o}, err // the options as far as they were completed
	}
	n.env = n.env.On(o.Cluster)
	if err := n.env.Dirs.Prepare(); err != nil {
		return Review{}, err
	}
	j, err := n.recordFor(ctx, o)
	if err != nil {
		return Review{}, err
	}
	r := newAttempt(n.env, j, o, nil, nil)
	defer r.close()
	if o.Join != nil {
		if _, err := r.discover(ctx); err != nil {
			return Review{}, err
		}
	}
	if err := r.openToken(ctx); err != nil {
		return Review{}, err
	}
	rev := Review{Options: o, Server: j.Cluster.Server, Resumes: j.Done, Token: r.info}
	occupied, err := keyMaker{r}.occupied(ctx)
	if err != nil {
		return Review{}, err
	}
	known, err := defaultSecrets(ctx, r.token, r.info)
	if err != nil {
		return Review{}, err
	}
	change, kept, err := planEntry(ctx, r.env, j)
	if err != nil {
		return Review{}, err
	}
	rev.KubeconfigFile, rev.KubeconfigDiff = n.env.Rules().DefaultFile(), change.Diff()
	if files := change.Files(); len(files) > 0 {
		rev.KubeconfigFile = files[0]
	}
	rev.Notes = change.Notes()
	if kept != "" {
		rev.Notes = append(rev.Notes, kept)
	}
	switch first := o.Token.NewSlot(); {
	case o.Restart && !asked.Restart:
		rev.Notes = append(rev.Notes, "the key that was made before is no longer on the token: a new one is made")
	case j.Updated.IsZero() && asked.Generate.Slot == "" && o.Generate.Slot != first && o.Key.Scheme == "" && !o.Adopt:
		rev.Notes = append(rev.Notes, "slot "+first+" holds another key: the new one goes into slot "+o.Generate.Slot)
	}
	if j.Cluster.InsecureSkipTLSVerify {
		rev.Notes = append(rev.Notes, "the cluster is not verified: "+
			(&cluster.UnverifiedError{Host: j.Enrollment().Host()}).Consequence())
	}
	if rev.Token.PIN.Blocked() {
		rev.Notes = append(rev.Notes, "the token's PIN is blocked: unblock it first")
	}
	if o.Adopt {
		return n.reviewAdopted(ctx, r, rev, known)
	}
	if why, err := keepsApart(ctx, r.token, r.info, o); err != nil {
		return Review{}, err
	} else if why != "" {
		rev.Notes = append(rev.Notes, "the certificate is kept in the state folder alone: "+why)
	}
	if rev.Forecast, err = n.forecast(ctx, j); err != nil { // the step itself will say it
		rev.Notes = append(rev.Notes, "the cluster cannot be asked: "+err.Error())
	}
	if err := n.unreachable(ctx, j, rev.Forecast); err != nil {
		rev.Refused = noKeyYet(err)
	}
	rev.Approved = n.approved(ctx, j)
	switch {
	case len(known) == 0:
	case !o.AcceptDefaults && o.Guided && replaceable(known, rev.Token):
		for _, s := range known {
			rev.Replaces = append(rev.Replaces, s.kind)
		}
	default:
		rev.Notes = append(rev.Notes, defaultsNote(known, o.AcceptDefaults))
		if !o.AcceptDefaults {
			rev.Refused = defaultsRefusal(known, rev.Token)
		}
	}
	if err := change.Writable(); err != nil { // the kubeconfig is written last, when all else is made
		rev.Refused = err
	}
	preferTouch(j, o.Guided, r.info)
	if err := cmp.Or(keyRefusal(j, r.info), occupied); err != nil {
		rev.Refused = err
	}
	rev.Options.Generate.Touch = j.Options.Generate.Touch
	rev.Commands = []string{n.Command(rev.Options)}
	return rev, nil
}

// unreachable is why the cluster of j, which is to make a key, does not answer, nil if it does. It is asked
// only where the forecast leaves that open.
func (n Enroller) unreachable(ctx context.Context, j *enrolling.Progress, forecast []csr.Point) error {
	open := slices.ContainsFunc(forecast, func(p csr.Point) bool { return p.ID == "create" && p.Verdict == csr.Unknown })
	if !open || !j.Makes() {
		return nil
	}
	client, err := NewEnroller(n.env.Quiet()).filer(ctx, j)
	if err == nil {
		err = reach(ctx, client)
	}
	if errors.Is(err, apierror.ErrUnreachable) {
		return err
	}
	return nil
}

// approved tells whether the request that j has filed is approved, as far as that can be seen.
func (n Enroller) approved(ctx context.Context, j *enrolling.Progress) bool {
	if len(j.Certificate) > 0 {
		return true
	}
	if j.Request.UID == "" {
		return false
	}
	n.env = n.env.Quiet()
	client, err := n.filer(ctx, j)
	if err != nil {
		return false // the wait itself will say it
	}
	obj, err := client.Get(ctx, j.Request.Name)
	if err != nil || string(obj.UID) != j.Request.UID {
		return false
	}
	state := csr.StateOf(obj).State
	return state == csr.Approved || state == csr.Issued
}

// Command is what a person would type to enroll with o; what is still open is left out.
func (n Enroller) Command(o enrolling.Options) string {
	if o.Key.Scheme != "" { // the key names its token, and is not generated
		o.Token, o.Generate = hsm.URI{}, hsm.GenerateOptions{}
	}
	return o.Command(n.env.Kubeconfig)
}

// Remarks are the notes, and those points of the forecast that want attention.
func (r Review) Remarks() []string {
	out := slices.Clone(r.Notes)
	for _, p := range r.Forecast {
		switch {
		case p.Verdict == csr.Warn, p.Verdict == csr.Unknown && p.ID == "create":
			out = append(out, p.Reason)
		case p.Verdict == csr.Refuse:
			out = append(out, "this will be refused: "+p.Reason)
		}
	}
	return out
}

// reviewAdopted completes the review of an enrollment that signs in with the certificate on the
// token; known are the token's default secrets.
func (n Enroller) reviewAdopted(ctx context.Context, r *attempt, rev Review, known []defaultSecret) (Review, error) {
	slots, err := r.token.Slots(ctx, nil)
	if err != nil {
		return Review{}, err
	}
	more, err := knownIssuers(r.given, r.record.Certificate)
	if err != nil {
		return Review{}, err
	}
	fit, unfit := Adoptables(slots, more)
	i := slices.IndexFunc(fit, func(a Adoptable) bool { return rev.Options.Key.MatchSlot(a.Slot) })
	if i < 0 {
		rev.Refused = noneAdoptable(rev.Options.Key, unfit)
		return rev, nil
	}
	rev.Certificate = fit[i].Certificate
	if rev.Refused = takeAdoptable(&rev.Options, fit[i]); rev.Refused == nil {
		reviewTaken(ctx, r, &rev, fit[i].Slot.Key, known)
		rev.Commands = []string{n.Command(rev.Options)}
	}
	return rev, nil
}

// reviewTaken completes the review of a certificate that can sign in, which is for key.
func reviewTaken(ctx context.Context, r *attempt, rev *Review, key *hsm.Key, known []defaultSecret) {
	if key != nil && key.PIN == hsm.PINAlways {
		rev.Notes = append(rev.Notes, "the token requires the PIN for each signature of this key: with each connection that "+
			"kubehsm opens, not with each command")
	}
	switch by := accepts(ctx, r.env, r.record.Cluster, rev.Options); {
	case by == nil:
		rev.Notes = append(rev.Notes, "the API server does not answer, so it is not known yet whether it "+
			"accepts the certificate")
	case !rev.Options.AcceptForecast:
		if err := by.Check(rev.Certificate); err != nil {
			rev.Refused = untrusted(err)
		}
	}
	if has(known, hsm.UserPIN) && !rev.Options.AcceptDefaults {
		if rev.Options.Guided && rev.Token.Can.ChangePIN && !rev.Token.PIN.Blocked() {
			rev.Replaces = []hsm.PINKind{hsm.UserPIN}
		} else {
			pin := slices.DeleteFunc(known, func(s defaultSecret) bool { return s.kind != hsm.UserPIN })
			rev.Refused = defaultsRefusal(pin, rev.Token)
		}
	}
}

package enroll

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/agent/renewing"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/expiry"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// RenewOptions say how to renew: the options of an enrollment that are also a renewal's
// ([enrolling.OfRenewal]), and those of a key where a new one is to be generated, whose
// Label or Slot may be left open. An Expiration of 0 asks for what was asked before.
type RenewOptions struct {
	enrolling.Options
	// NewKey has a new key generated.
	NewKey bool
	// With is as in [enrolling.Renewal].
	With string
}

// Renewer renews certificates.
type Renewer struct{ env *env.Env }

// NewRenewer returns the one that works with e.
func NewRenewer(e *env.Env) Renewer { return Renewer{env: e} }

// Renew asks for a new certificate for the enrollment called name, with the same
// user and groups and, unless a new key is asked for, the same key. Until it is
// there, the old one stays in use. It resumes what an earlier call began. Errors
// are those of [Enroller.Enroll].
func (n Renewer) Renew(ctx context.Context, name string, o RenewOptions, p hsm.Prompter,
	report func(enrolling.Event)) (enrolling.Result, error) {
	release, err := n.env.Lock(ctx, name)
	if err != nil {
		return enrolling.Result{}, err
	}
	defer release()
	j, err := n.renewal(ctx, name, o)
	if err != nil {
		return enrolling.Result{}, err
	}
	r := newAttempt(n.env, j, j.Options, p, report)
	defer r.close()
	if err := r.signInFirst(ctx); err != nil {
		return enrolling.Result{}, err
	}
	if err := r.run(ctx, enrolling.Steps()); err != nil {
		return enrolling.Result{}, err
	}
	if old := j.Options.Renewal.OldKey; old.Scheme != "" {
		r.result.Notes = append(
			r.result.Notes,
			fmt.Sprintf(
				"the old key is still on the token, and its certificate valid until it ends; remove it with `kubehsm key "+
					"delete --key %s`",
				shell.Quote(old.String()),
			),
		)
	}
	return r.result, nil
}

// foreign is the error for a certificate that is not the cluster's to renew.
func foreign(en enrollment.Enrollment) error {
	return hint.Withf(
		fmt.Errorf("the cluster cannot renew the certificate of %q; only its issuer, %s, can", en.Name, en.Issuer),
		"once the next certificate is on the token, run `%s` to use it",
		en.Anew(),
	)
}

// renewal is the record of an unfinished renewal that o goes on with, or a new one.
func (n Renewer) renewal(ctx context.Context, name string, o RenewOptions) (*enrolling.Progress, error) {
	en, err := n.env.Enrollments().Load(name)
	if err != nil {
		return nil, err
	}
	if en.Issuer != "" {
		return nil, foreign(en)
	}
	old, err := enrolling.NewStore(n.env).Load(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if old != nil && !old.Finished() && old.Options.Renewal != nil {
		if newKey := old.Options.Renewal.OldKey.Scheme != ""; newKey != o.NewKey {
			return nil, old.Options.Conflict("new key", fmt.Sprint(newKey), fmt.Sprint(o.NewKey))
		}
		old.Options.TakeRenewal(o.Options, true)
		old.Options.Renewal.With = o.With
		return old, nil
	}
	chain, err := n.env.Enrollments().Certificate(en)
	if err != nil {
		return nil, err
	}
	j := &enrolling.Progress{Cluster: en.Cluster, Namespace: en.Namespace, Options: enrolling.Options{
		Name: name, SpareOf: en.SpareOf, Token: en.Key.TokenOnly(), Context: en.Context, User: en.User, Groups: en.Groups,
		AcceptDefaults: true, // the token is in use already
		KeepCurrent:    true, Renewal: &enrolling.Renewal{With: o.With},
	}}
	j.Options.TakeRenewal(o.Options, false)
	if old != nil {
		j.Options.FillRenewed(old.Options)
	}
	enrolling.Fill(&j.Options.Generate.Algorithm, hsm.AlgorithmOf(chain[0].PublicKey))
	enrolling.Fill(&j.Options.Generate.Slot, en.Key.Slot)
	j.Options.FillDefaults()
	if !o.NewKey {
		j.Options.Key, j.Request.Key, j.Request.KeyHash = en.Key, en.Key, en.KeyHash
		return j, renewals(n).takeOver(en, j)
	}
	j.Options.Renewal.OldKey = en.Key
	g := o.Generate
	enrolling.Fill(&g.Algorithm, j.Options.Generate.Algorithm)
	enrolling.Fill(&g.PIN, j.Options.Generate.PIN) // no weaker than the old key's, unless that is asked for
	enrolling.Fill(&g.Touch, j.Options.Generate.Touch)
	j.Options.Generate = g
	return j, n.placeNewKey(ctx, j)
}

// placeNewKey fills in where the new key goes: beside the old one, which must
// sign until the new one has its certificate.
func (n Renewer) placeNewKey(ctx context.Context, j *enrolling.Progress) error {
	g := &j.Options.Generate
	slots, err := hsm.ReadSlots(ctx, n.env.Drivers, j.Options.Token)
	if err != nil {
		return err
	}
	taken := func(f func(hsm.Slot) bool) bool { return slices.ContainsFunc(slots, f) }
	if kind := j.Options.Token.Kind(); kind.HasSlots() {
		if g.Slot != "" {
			return nil
		}
		g.Slot, err = spareSlot(kind, slots)
		return err
	}
	if g.Label == "" {
		g.Label = j.Options.Name + time.Now().UTC().Format("-20060102")
		for base, n := g.Label, 2; taken(func(s hsm.Slot) bool { return s.Label == g.Label }); n++ {
			g.Label = fmt.Sprintf("%s-%d", base, n)
		}
	}
	return nil
}

// signInFirst signs in with the certificate that is to be renewed, before the token is opened here: the agent needs it.
func (r *attempt) signInFirst(ctx context.Context) error {
	o := r.record.Options
	if o.Renewal.With != "" || r.record.Did(enrolling.StepApproval) {
		return nil
	}
	en, err := r.env.Enrollments().Load(o.Name)
	if err != nil {
		return err
	}
	if err := NewRenewer(r.env).renewable(en); err != nil {
		return err
	}
	return r.withPIN(ctx, "sign in", func(p hsm.Prompter) error {
		if r.filing, err = (cluster.Access{Env: r.env}).ThroughBridge(ctx, o.Name, p); err != nil {
			return err
		}
		return r.openToken(ctx)
	})
}

// renewable refuses what cannot ask for its own successor any more.
func (n Renewer) renewable(en enrollment.Enrollment) error {
	chain, err := n.env.Enrollments().Certificate(en)
	if err != nil {
		return err
	}
	if now := time.Now(); now.After(chain[0].NotAfter) {
		err := fmt.Errorf("the certificate of %q %s: it cannot ask for its own successor any more", en.Name,
			expiry.Left(chain[0].NotAfter, now))
		if en.Context == "" { // a joined enrollment
			return hint.Withf(
				err,
				"ask the help desk for a ticket: `kubehsm join --name %s --ticket -`; or file the request with another "+
					"credential: "+
					"`kubehsm certificate renew %s --with CONTEXT`; if the date looks wrong, check this machine's clock",
				en.Name,
				en.Name,
			)
		}
		return hint.Withf(err,
			"file the request with another credential: `kubehsm certificate renew %s --with %s`; "+
				"if the date looks wrong, check this machine's clock",
			en.Name, shell.Quote(en.Context))
	}
	return nil
}

// Expiring is an enrollment with the end of its certificate.
type Expiring struct {
	Name string `json:"name"`
	// User is whom the certificate stands for, Server is the cluster that accepts it.
	User     string    `json:"user,omitempty"`
	Server   string    `json:"server,omitempty"`
	NotAfter time.Time `json:"notAfter"`
	// Due: a person should renew it, see [renewing.Due]. Failure says why the agent could not, ""
	// if it has not tried.
	Due     bool   `json:"due"`
	Failure string `json:"failure,omitempty"`
	// Issuer renews the certificate, see [enrollment.Enrollment.Issuer].
	Issuer string `json:"issuer,omitempty"`
	// Err says why the certificate could not be read.
	Err error `json:"-"`

	context string // the context that the enrollment was made from
}

// Renewal is the command that gets the next certificate: see [enrollment.Enrollment.Renewal].
func (x Expiring) Renewal(now time.Time) string {
	return x.of().Renewal(x.NotAfter, now)
}

// of is the enrollment as far as it is known here.
func (x Expiring) of() enrollment.Enrollment {
	return enrollment.Enrollment{Name: x.Name, Issuer: x.Issuer, Context: x.context}
}

// Of returns when the certificate of the enrollment called name ends, and whether a renewal of it
// was begun and is not finished.
func (n Renewer) Of(name string, now time.Time) (x Expiring, begun bool, err error) {
	en, err := n.env.Enrollments().Load(name)
	if err != nil {
		return x, false, err
	}
	j, err := enrolling.NewStore(n.env).Load(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return x, false, err
	}
	x = n.expiring(en, now)
	return x, err == nil && !j.Finished() && j.Options.Renewal != nil, x.Err
}

func (n Renewer) expiring(en enrollment.Enrollment, now time.Time) Expiring {
	x := Expiring{Name: en.Name, User: en.User, Server: en.Cluster.Server, Issuer: en.Issuer, context: en.Context}
	chain, err := n.env.Enrollments().Certificate(en)
	if x.Err = err; err == nil {
		x.NotAfter = chain[0].NotAfter
		x.Due, x.Failure = renewing.Due(n.env.Enrollments(), en, chain[0], now, renewing.Off(n.env.Dirs))
	}
	return x
}

// Expiring lists the enrollments with the ends of their certificates as they are at now, the
// one that ends first before the others. Enrollments that cannot be read are left out and named
// in the error.
func (n Renewer) Expiring(now time.Time) ([]Expiring, error) {
	all, unread := n.env.Enrollments().List()
	out := make([]Expiring, 0, len(all))
	for _, en := range all {
		out = append(out, n.expiring(en, now))
	}
	slices.SortStableFunc(out, func(a, b Expiring) int { return a.NotAfter.Compare(b.NotAfter) })
	return out, unread
}

// ExpiryWarnings are a line for each enrollment whose certificate should be
// renewed.
func (n Renewer) ExpiryWarnings() ([]string, error) {
	all, err := n.Expiring(time.Now())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, x := range all {
		if x.Due {
			out = append(out, renewing.Warning(x.of(), x.NotAfter, time.Now(), x.Failure))
		}
	}
	return out, nil
}

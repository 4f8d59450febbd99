package enroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// ErrNoCluster: nothing says which cluster an enrollment is for.
var ErrNoCluster = errors.New("no cluster is chosen and the kubeconfig has no current context")

// ErrNoUser: nothing says whom a certificate is for.
var ErrNoUser = errors.New("no user name is given")

// Complete fills what o leaves open: first from the record of an unfinished enrollment of that
// name, then with defaults. It looks for the token where none is named. Where no user is named,
// it asks the cluster who the context signs in as, and nobody for a PIN. It changes nothing.
func (n Enroller) Complete(ctx context.Context, o enrolling.Options) (enrolling.Options, error) {
	if err := spares(n).complete(ctx, &o); err != nil {
		return o, err
	}
	if err := n.completeContext(ctx, &o); err != nil {
		return o, err
	}
	if err := enrollment.ValidName(o.Name); err != nil {
		return o, err
	}
	enrolling.Fill(&o.Cluster, n.env.Cluster)
	if !o.Restart {
		if err := n.completeFromProgress(&o); err != nil {
			return o, err
		}
	}
	if err := n.completeToken(ctx, &o); err != nil {
		return o, err
	}
	if err := n.completeKey(ctx, &o); err != nil {
		return o, err
	}
	o.FillDefaults()
	if err := n.completeAdopted(ctx, &o); err != nil {
		return o, err
	}
	if err := spares(n).check(o); err != nil {
		return o, err
	}
	if err := n.completeUser(ctx, &o); err != nil {
		own := n.own(ctx, o)
		if own == nil {
			return o, err
		}
		announced, refusal := n.announced(ctx, o, own)
		if refusal != nil {
			return o, hint.With(fmt.Errorf("the certificate of %q on the token: %w", own[0].Certificate.Subject().User, refusal),
				hint.Of(refusal)+"; to request a certificate from the cluster: --user NAME (and --group NAME)")
		}
		if !announced {
			return o, hint.With(err, hint.Of(err)+"; or sign in with the certificate that is on the token: --use-certificate")
		}
		o.Adopt = true
		if err := n.completeAdopted(ctx, &o); err != nil {
			return o, err
		}
	}
	if err := n.completeNames(ctx, &o); err != nil {
		return o, err
	}
	if err := csr.ValidExpiration(o.Expiration); err != nil {
		return o, err
	}
	return o, nil
}

// completeToken takes the only token there is if none is named.
func (n Enroller) completeToken(ctx context.Context, o *enrolling.Options) error {
	if o.Token.Scheme != "" {
		return nil
	}
	if o.Key.Scheme != "" {
		o.Token = o.Key.TokenOnly()
		return nil
	}
	if o.Join != nil && o.Join.Serial != "" {
		return n.completeSerial(ctx, o)
	}
	only, err := (token.Tokens{Env: n.env}).Only(ctx, o.Except...)
	if o.SpareOf != "" && errors.Is(err, hsm.ErrNoToken) {
		err = hint.Withf(err, "insert the token that is to be the spare of %s", o.SpareOf)
	}
	if o.Join != nil && errors.Is(err, hsm.ErrSeveralTokens) { // --token is another one there
		err = hint.With(hsm.ErrSeveralTokens, "choose one with --hsm; `kubehsm token list` shows their URIs")
	}
	o.Token = only
	return err
}

func (n Enroller) completeContext(ctx context.Context, o *enrolling.Options) error {
	if o.SpareOf != "" {
		return nil
	}
	if o.Join != nil {
		if o.Context != "" {
			return errors.New("a join takes its cluster from discovery, not from a context")
		}
		enrolling.Fill(&o.Name, o.Join.JoinName())
		return nil
	}
	if o.Context != "" && o.Name != "" {
		return nil
	}
	if o.Name != "" { // a record may know the context
		if _, err := enrolling.NewStore(n.env).Load(o.Name); err == nil && !o.Restart {
			return nil
		}
	}
	contexts, err := contexts.New(n.env).List(ctx)
	if err != nil {
		return err
	}
	if o.Context == "" {
		for _, c := range contexts {
			if c.Current {
				o.Context = c.Name
			}
		}
		if o.Context == "" {
			return hint.With(ErrNoCluster,
				"choose one with --context; `kubehsm kubeconfig list` shows them")
		}
	}
	if o.Name == "" {
		o.Name = enrolling.NameFor(cmp.Or(n.env.Cluster, o.Context))
		for _, c := range contexts { // run from the enrolled context itself
			if c.Name == o.Context && c.Ours {
				o.Name = cmp.Or(c.Enrollment, c.Name)
			}
		}
	}
	return n.completeSource(o, contexts)
}

// completeSource takes the context that an enrollment was made from where its own is chosen, which
// is current since the first run, and does not sign in without its key.
func (n Enroller) completeSource(o *enrolling.Options, all []contexts.View) error {
	own := func(c contexts.View) bool {
		return c.Name == o.Context && c.Ours && cmp.Or(c.Enrollment, c.Name) == o.Name
	}
	if !slices.ContainsFunc(all, own) {
		return nil
	}
	j, err := enrolling.NewStore(n.env).Load(o.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	source := j.Options.Context
	if !o.Restart || slices.ContainsFunc(all, func(c contexts.View) bool { return c.Name == source }) {
		o.Context = source
	}
	return nil
}

// completeKey looks at the keys on the token. An enrollment whose key is no longer there begins
// anew: nothing that was made for it is of use. A new key goes where none is.
func (n Enroller) completeKey(ctx context.Context, o *enrolling.Options) error {
	j := &enrolling.Progress{}
	if !o.Restart {
		var err error
		if j, err = enrolling.NewStore(n.env).Load(o.Name); errors.Is(err, fs.ErrNotExist) {
			j = &enrolling.Progress{}
		} else if err != nil {
			return err
		}
	}
	made := j.Request.KeyHash != "" && !o.Adopt && enrolling.SameToken(o.Token, j.Request.Key)
	open := o.Token.Kind().HasSlots() && o.Key.Scheme == "" && o.Generate.Slot == "" && o.Token.Slot == "" &&
		!o.Generate.Overwrite && !o.Adopt
	if !made && !open {
		return nil
	}
	slots, err := hsm.ReadSlots(ctx, n.env.Drivers, o.Token)
	if err != nil {
		return err
	}
	if made && token.IsGone(j.Request.Key, j.Request.KeyHash, slots) {
		o.Restart, o.Key, open = true, hsm.URI{}, o.Token.Kind().HasSlots()
	}
	if !open {
		return nil
	}
	first := cmp.Or(o.Generate.Slot, o.Token.NewSlot())
	if slices.ContainsFunc(slots, func(s hsm.Slot) bool { return s.ID == first && s.Key != nil }) {
		o.Generate.Slot, err = spareSlot(o.Token.Kind(), slots)
	}
	return err
}

// completeFromProgress fills open options from an earlier run.
func (n Enroller) completeFromProgress(o *enrolling.Options) error {
	j, err := enrolling.NewStore(n.env).Load(o.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	o.FillFrom(j)
	return nil
}

// completeUser takes the user that the source context signs in as if none is named, and its
// groups, but for those that only Kubernetes itself gives. Where a cluster is joined it takes
// whom the cluster's roster gives the token to.
func (n Enroller) completeUser(ctx context.Context, o *enrolling.Options) error {
	if o.User != "" || o.Adopt {
		return nil
	}
	const next = "say who the certificate is for: --user NAME (and --group NAME)"
	var me csr.Subject
	from, where := "the roster names the owner", "the roster"
	if o.Join != nil {
		owner, err := NewJoins(n.env).owner(ctx, o)
		switch {
		case err != nil:
			return err
		case owner == nil:
			return hint.With(ErrNoUser, next)
		}
		me = *owner
	} else {
		where = fmt.Sprintf("context %q", o.Context)
		from = where + " signs in as"
		access := cluster.Access{Env: n.env.On(o.Cluster)}
		at, err := access.Endpoint(ctx, o.Context)
		if err == nil {
			err = at.Accepts(o.AcceptUnverified)
		}
		if err != nil {
			return err
		}
		i, err := contexts.New(access.Env).Subject(ctx, o.Context)
		if err != nil {
			return hint.With(fmt.Errorf("%w, and context %q does not name one: %w", ErrNoUser, o.Context, err), next)
		}
		me = csr.Subject{User: i.User, Groups: i.Groups}
	}
	if builtIn(me.User) {
		return hint.With(fmt.Errorf("%w, and %s %s", ErrNoUser, from, me.User), next)
	}
	// What the cluster says must not be filled in with what is known of this machine.
	if strings.ContainsRune(me.User+strings.Join(me.Groups, ""), '{') {
		return hint.With(fmt.Errorf("%w, and %s has a user or group name with a {", ErrNoUser, where), next)
	}
	o.User = me.User
	if o.Groups == nil {
		o.Groups = slices.DeleteFunc(me.Groups, builtIn)
	}
	return nil
}

// builtIn tells whether a user or group is one of Kubernetes' own.
func builtIn(name string) bool { return strings.HasPrefix(name, "system:") }

// completeNames fills the placeholders in the names that o asks for and checks
// the names. The token is opened only if there is a placeholder.
func (n Enroller) completeNames(ctx context.Context, o *enrolling.Options) error {
	if o.Adopt { // the certificate's issuer chose the names
		return nil
	}
	if o.HasPlaceholders() {
		err := (token.Tokens{Env: n.env}).With(ctx, o.Token, func(token hsm.Token) error {
			info, err := token.Info(ctx)
			if err != nil {
				return err
			}
			return o.FillNames(info)
		})
		if err != nil {
			return err
		}
	}
	if err := o.AltNames.Into(&csr.RequestOptions{}); err != nil {
		return err
	}
	return (csr.Subject{User: o.User, Groups: o.Groups}).Validate(o.SignerName)
}

// completeAdopted fills in the key and the user of the certificate that is adopted.
func (n Enroller) completeAdopted(ctx context.Context, o *enrolling.Options) error {
	if !o.Adopt || o.Key.Scheme != "" && o.User != "" {
		return nil
	}
	more, err := chainIn(*o)
	if err != nil {
		return err
	}
	slots, err := hsm.ReadSlots(ctx, n.env.Drivers, o.Token)
	if err != nil {
		return err
	}
	fit, unfit := Adoptables(slots, more)
	chosen := ofKey(o.Key, fit)
	if at, err := (cluster.Access{Env: n.env.On(o.Cluster)}).Endpoint(ctx, o.Context); o.Join == nil && err == nil &&
		len(chosen) > 1 && !o.AcceptForecast {
		by := accepts(ctx, n.env.On(o.Cluster), at.Cluster, *o)
		some := accepted(by, chosen)
		if len(some) == 0 {
			return untrusted(by.Check(chosen[0].Certificate))
		}
		chosen = some
	}
	switch len(chosen) {
	case 0:
		return noneAdoptable(o.Key, unfit)
	case 1:
		return takeAdoptable(o, chosen[0])
	}
	return severalAdoptable(chosen)
}

// own are the certificates on the token that somebody whose context has no credential can sign
// in with.
func (n Enroller) own(ctx context.Context, o enrolling.Options) []Adoptable {
	if o.Adopt || o.Key.Scheme != "" || o.ApproveWith != "" || o.Join != nil {
		return nil
	}
	slots, err := hsm.ReadSlots(ctx, n.env.Drivers, o.Token)
	if err != nil {
		return nil // the step that finds the token says why
	}
	more, err := chainIn(o)
	if err != nil {
		return nil
	}
	fit, _ := Adoptables(slots, more)
	return fit
}

// announced tells whether the API server of the context announces that it accepts any of them. The error says that it
// announces others.
func (n Enroller) announced(ctx context.Context, o enrolling.Options, own []Adoptable) (bool, error) {
	var by *csr.Accepted
	at, err := (cluster.Access{Env: n.env.On(o.Cluster)}).Endpoint(ctx, o.Context)
	if err == nil && at.Accepts(o.AcceptUnverified) == nil {
		by = accepts(ctx, n.env.On(o.Cluster), at.Cluster, o)
	}
	if by == nil || len(by.Names) == 0 { // nothing is announced: the caller's own error counts
		return false, nil
	}
	if len(accepted(by, own)) == 0 {
		return false, untrusted(by.Check(own[0].Certificate))
	}
	return true, nil
}

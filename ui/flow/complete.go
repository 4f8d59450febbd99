package flow

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// ConflictError says that an enrolment of this name was begun with other options.
type ConflictError struct {
	Name, Option, Recorded, Asked string

	begun EnrollOptions
}

// conflict is a [*ConflictError] with what was begun.
func (o EnrollOptions) conflict(option, recorded, asked string) error {
	return &ConflictError{Name: o.Name, Option: option, Recorded: recorded, Asked: asked, begun: o}
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the enrolment %q was begun with %s %q, not %q", e.Name, e.Option, e.Recorded, e.Asked)
}

// Hint says how to go on.
func (e *ConflictError) Hint() string {
	hint := "`" + e.begun.resume() + "` goes on with what was begun"
	if e.begun.Renewal == nil {
		hint += "; --restart begins anew; another --name makes a second one"
	}
	return hint
}

// continues tells whether o can go on from j: what it names must be the same.
func (j *Journal) continues(o EnrollOptions) error {
	old := j.Options
	for _, c := range []struct{ option, recorded, asked string }{
		{"context", old.Context, o.Context},
		{"kubeconfig cluster", old.Cluster, o.Cluster},
		{"cluster", old.source(), o.source()},
		{"user", old.User, o.User},
		{"groups", strings.Join(old.Groups, ","), strings.Join(o.Groups, ",")},
		{"signer name", old.SignerName, o.SignerName},
		{"algorithm", string(old.Generate.Algorithm), string(o.Generate.Algorithm)},
	} {
		if c.recorded != c.asked {
			return old.conflict(c.option, c.recorded, c.asked)
		}
	}
	if j.did(StepToken) && !sameToken(o.Token, old.Token) {
		return old.conflict("token", old.Token.String(), o.Token.String())
	}
	return j.keepsKey(o)
}

// keepsKey tells whether o wants the key that j has, or has begun to make. Its
// place and policies cannot be changed any more: to go on as if they were would
// leave a weaker key than was asked for.
func (j *Journal) keepsKey(o EnrollOptions) error {
	old := j.Options
	if j.KeyHash != "" && o.Key.Scheme != "" && !sameKey(o.Key, j.Key) {
		return old.conflict("key", j.Key.String(), o.Key.String())
	}
	if !j.Generating && j.KeyHash == "" {
		return nil
	}
	for _, c := range []struct{ option, recorded, asked string }{
		{"slot", old.Generate.Slot, o.Generate.Slot},
		{"PIN policy", old.Generate.PIN.String(), o.Generate.PIN.String()},
		{"touch policy", old.Generate.Touch.String(), o.Generate.Touch.String()},
	} {
		if c.recorded != c.asked {
			return old.conflict(c.option, c.recorded, c.asked)
		}
	}
	return nil
}

// sameKey is [sameToken] for keys.
func sameKey(asked, recorded hsm.URI) bool {
	return sameToken(asked, recorded) && (asked.Object == "" || asked.Object == recorded.Object) &&
		(len(asked.ID) == 0 || bytes.Equal(asked.ID, recorded.ID)) && (asked.Slot == "" || asked.Slot == recorded.Slot)
}

// sameToken tells whether asked, which may be short, names what recorded, which
// is whole, names.
func sameToken(asked, recorded hsm.URI) bool {
	eq := func(a, r string) bool { return a == "" || a == r }
	return asked.Scheme == recorded.Scheme && eq(asked.Token, recorded.Token) && eq(asked.Serial, recorded.Serial) &&
		eq(asked.Manufacturer, recorded.Manufacturer) && eq(asked.Model, recorded.Model)
}

// Complete fills what o leaves open: first from the record of an unfinished
// enrolment of that name, then with defaults. It checks what can be checked
// without a token or a cluster.
func (n Enroller) Complete(ctx context.Context, o EnrollOptions) (EnrollOptions, error) {
	if err := n.completeContext(ctx, &o); err != nil {
		return o, err
	}
	if err := enrollment.ValidName(o.Name); err != nil {
		return o, err
	}
	fill(&o.Cluster, n.env.Cluster)
	if !o.Restart {
		if err := n.completeFromProgress(&o); err != nil {
			return o, err
		}
	}
	if o.SignerName == "" {
		o.SignerName = csr.ClientSigner
	}
	if o.Generate.Algorithm == "" {
		o.Generate.Algorithm = hsm.ECDSAP256
	}
	if o.Generate.Label == "" {
		o.Generate.Label = o.Name
	}
	if err := n.completeToken(ctx, &o); err != nil {
		return o, err
	}
	if o.Generate.Slot == "" {
		o.Generate.Slot = o.Token.NewSlot()
	}
	if o.User == "" {
		return o, hsm.WithHint(errors.New("no user name is given"), "say who the certificate is for: --user NAME (and --group NAME)")
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
func (n Enroller) completeToken(ctx context.Context, o *EnrollOptions) error {
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
	only, err := n.env.OnlyToken(ctx)
	if o.Join != nil && errors.Is(err, hsm.ErrSeveralTokens) { // --token is another one there
		err = hsm.WithHint(hsm.ErrSeveralTokens, "choose one with --hsm; `kubehsm token list` shows their URIs")
	}
	o.Token = only
	return err
}

func (n Enroller) completeContext(ctx context.Context, o *EnrollOptions) error {
	if o.Join != nil {
		if o.Context != "" {
			return errors.New("a join takes its cluster from discovery, not from a context")
		}
		fill(&o.Name, o.Join.joinName())
		return nil
	}
	if o.Context != "" && o.Name != "" {
		return nil
	}
	if o.Name != "" { // a record may know the context
		if _, err := NewStore(&n.env.Env).Load(o.Name); err == nil && !o.Restart {
			return nil
		}
	}
	contexts, err := n.env.Contexts(ctx)
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
			return hsm.WithHint(errors.New("no cluster is chosen and the kubeconfig has no current context"),
				"choose one with --context; `kubehsm kubeconfig list` shows them")
		}
	}
	if o.Name == "" {
		o.Name = nameFor(cmp.Or(n.env.Cluster, o.Context))
		for _, c := range contexts { // run from the enrolled context itself
			if c.Name == o.Context && c.Ours {
				o.Name = cmp.Or(c.Enrollment, c.Name)
				if j, err := NewStore(&n.env.Env).Load(o.Name); err == nil && !o.Restart {
					o.Context = j.Options.Context // the enrolled one is current since the first run
				}
			}
		}
	}
	return nil
}

// nameFor makes an enrolment's name from a context's, which may hold anything.
func nameFor(context string) string {
	const suffix, longest = "-hsm", 63
	base := slug(context)
	if len(base) > longest-len(suffix) {
		base = strings.TrimRight(base[:longest-len(suffix)], "-.")
	}
	return strings.TrimPrefix(base+suffix, "-")
}

// slug keeps of s what may stand in a name: lower-case letters, digits, dots
// and dashes, anything else becoming one dash.
func slug(s string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			if gap {
				b.WriteByte('-')
			}
			b.WriteRune(r)
			gap = false
		} else {
			gap = true
		}
	}
	return strings.Trim(b.String(), "-.")
}

// completeFromProgress fills open options from an earlier run.
func (n Enroller) completeFromProgress(o *EnrollOptions) error {
	j, err := NewStore(&n.env.Env).Load(o.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	old := j.Options
	if o.Join == nil || old.Join != nil {
		o.Join = old.Join.with(o.Join)
	}
	fill(&o.Context, old.Context)
	fill(&o.Cluster, old.Cluster)
	fill(&o.User, old.User)
	fill(&o.SignerName, old.SignerName)
	fill(&o.Reason, old.Reason)
	fill(&o.NoAttestation, old.NoAttestation)
	fill(&o.AcceptFactory, old.AcceptFactory)
	fill(&o.AcceptForecast, old.AcceptForecast)
	fill(&o.AcceptUnverified, old.AcceptUnverified)
	if !j.Finished() && old.Renewal == nil {
		fill(&o.KeepCurrent, old.KeepCurrent) // to go on makes no context current that was not to be
	}
	if o.Labels == nil {
		o.Labels = old.Labels
	}
	if len(o.AltNames.flags()) == 0 {
		o.AltNames = old.AltNames
	}
	fill(&o.Generate.Algorithm, old.Generate.Algorithm)
	fill(&o.Generate.Label, old.Generate.Label)
	fill(&o.Generate.Slot, old.Generate.Slot)
	fill(&o.Generate.PIN, old.Generate.PIN)
	fill(&o.Generate.Touch, old.Generate.Touch)
	fill(&o.Expiration, old.Expiration)
	if o.Groups == nil {
		o.Groups = old.Groups
	}
	if o.Key.Scheme == "" {
		o.Key = old.Key
	}
	if o.Token.Scheme == "" || sameToken(o.Token, old.Token) {
		o.Token = old.Token
	}
	return nil
}

func fill[T comparable](to *T, from T) {
	var zero T
	if *to == zero {
		*to = from
	}
}

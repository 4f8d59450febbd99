package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// Break-glass is a certificate of a group that may do everything, for an hour,
// with a reason, approved by a second person. The sealed kind is a token that is
// enrolled in advance and kept in a safe. The cluster's policy sees to the rules
// (assets, "breakglass"); here they are only made convenient.
const (
	BreakGlassLifetime = time.Hour
	// sealedWarning is how long before its end a sealed token is due.
	sealedWarning = 30 * 24 * time.Hour
)

// BreakGlassOptions say what to ask for.
type BreakGlassOptions struct {
	// Context is the kubeconfig context to ask from; "" is the current one.
	Context string
	// Name is the enrollment's; default made from the context's.
	Name string
	// Reason is why; it is required.
	Reason string
	// Lifetime is at most [BreakGlassLifetime], its default.
	Lifetime time.Duration
	// Token and Key say where the key is; by default it is that of the context,
	// if that is kubehsm's own.
	Token, Key hsm.URI
	// Generate, AcceptDefaults and Timeout are as in [enrolling.Options].
	Generate       hsm.GenerateOptions
	AcceptDefaults bool
	Timeout        time.Duration
}

// ErrNoReason: break-glass wants a reason.
var ErrNoReason = errors.New("there is no reason")

// BreakGlass prepares, records and lists enrollments for emergencies.
type BreakGlass struct {
	env    *env.Env
	access cluster.Access
}

// NewBreakGlass returns those of e.
func NewBreakGlass(e *env.Env) BreakGlass { return BreakGlass{env: e, access: cluster.Access{Env: e}} }

// Request is the enrollment that asks for break-glass.
func (b BreakGlass) Request(ctx context.Context, o BreakGlassOptions) (enrolling.Options, error) {
	if strings.TrimSpace(o.Reason) == "" {
		return enrolling.Options{}, hint.With(ErrNoReason,
			"give a reason with --reason: the second person reads it, and the record keeps it")
	}
	if o.Lifetime == 0 {
		o.Lifetime = BreakGlassLifetime
	}
	if o.Lifetime < csr.MinExpiration || o.Lifetime > BreakGlassLifetime {
		return enrolling.Options{}, hint.Withf(fmt.Errorf("%w for %s", request.ErrForecast, span.Of(o.Lifetime)),
			"break-glass lasts %s to %s", span.Of(csr.MinExpiration), span.Of(BreakGlassLifetime))
	}
	out, err := b.asCaller(ctx, o.Context, o.Name, "-break-glass", enrolling.Options{
		Token: o.Token, Key: o.Key, Generate: o.Generate, AcceptDefaults: o.AcceptDefaults, Timeout: o.Timeout,
		Groups: []string{request.BreakGlassGroup}, Expiration: o.Lifetime, Reason: o.Reason, KeepCurrent: true,
	})
	return out, err
}

// asCaller completes an enrollment for the caller of a context, with the
// caller's own key if the context is kubehsm's.
func (b BreakGlass) asCaller(ctx context.Context, kubeContext, name, suffix string,
	o enrolling.Options) (enrolling.Options, error) {
	c, err := b.env.Rules().Get(ctx, kubeContext)
	if err != nil {
		return o, err
	}
	o.Context, o.Name = c.Name, name
	enrolling.Fill(&o.Name, enrolling.Slug(strings.TrimSuffix(c.Name, "-hsm"))+suffix)
	if en, err := b.env.Enrollments().Load(c.User.Enrollment); c.Cluster.Ours() && err == nil {
		enrolling.Fill(&o.User, en.User)
		if o.Token.Scheme == "" && o.Key.Scheme == "" {
			o.Key, o.Token = en.Key, en.Key.TokenOnly()
		}
		return o, nil
	}
	if o.User != "" {
		return o, nil
	}
	client, err := b.access.Client(ctx, c.Name)
	if err != nil {
		return o, err
	}
	me, err := client.Rights().WhoAmI(ctx)
	if err != nil {
		return o, err
	}
	o.User = me.User
	return o, nil
}

// Seal is the enrollment of a token that is kept in a safe: its user is
// nobody's everyday name.
func (b BreakGlass) Seal(ctx context.Context, kubeContext, name string, o enrolling.Options) (enrolling.Options,
	error) {
	switch {
	case strings.TrimSpace(o.Reason) == "":
		return o, hint.With(ErrNoReason, "say with --reason where the token is kept and who may open the safe")
	case o.User == "":
		return o, hint.With(errors.New("no user name is given"),
			"give the sealed token a name of its own with --user, such as sealed-1: the audit log then shows when it is used")
	case o.Token.Scheme == "" && o.Key.Scheme == "":
		return o, hint.With(errors.New("no token is named"), "name the one that goes into the safe with --token")
	}
	o.Groups, o.KeepCurrent = []string{request.SealedGroup}, true
	return b.asCaller(ctx, kubeContext, name, "-sealed", o)
}

// Record keeps in the local record that r was enrolled.
func (b BreakGlass) Record(ctx context.Context, r enrolling.Result, reason string) error {
	en, err := b.env.Enrollments().Load(r.Name)
	if err != nil {
		return err
	}
	action := "break-glass-request"
	if slices.Contains(en.Groups, request.SealedGroup) {
		action = "seal"
	}
	return deeds.NewLog(b.env).Add(ctx, deeds.Deed{Action: action, Server: en.Cluster.Server, Request: r.Request,
		Fingerprint: r.Fingerprint,
		User:        r.User, Reason: reason, Expires: &r.NotAfter})
}

// BreakGlassView is an enrollment for emergencies.
type BreakGlassView struct {
	Name string `json:"name"`
	// Sealed tells the token in the safe from what was asked for in need.
	Sealed   bool      `json:"sealed"`
	User     string    `json:"user"`
	Server   string    `json:"server"`
	Key      string    `json:"key"`
	NotAfter time.Time `json:"notAfter"`
	// State is "live", "due" (a sealed one that must be renewed soon) or "expired".
	State string `json:"state"`
}

// List lists the enrollments for emergencies and until when they are
// good.
func (b BreakGlass) List() ([]BreakGlassView, error) {
	all, err := b.env.Enrollments().List()
	if err != nil {
		return nil, err
	}
	views := []BreakGlassView{}
	for _, en := range all {
		sealed := slices.Contains(en.Groups, request.SealedGroup)
		if !sealed && !slices.Contains(en.Groups, request.BreakGlassGroup) {
			continue
		}
		v := BreakGlassView{Name: en.Name, Sealed: sealed, User: en.User, Server: en.Cluster.Server, Key: en.Key.String(),
			State: "expired"}
		chain, err := b.env.Enrollments().Certificate(en)
		if err != nil && !errors.Is(err, hsm.ErrNoCertificate) {
			return nil, err
		}
		if len(chain) > 0 {
			v.NotAfter = chain[0].NotAfter
		}
		switch left := time.Until(v.NotAfter); {
		case left > 0 && sealed && left < sealedWarning:
			v.State = "due"
		case left > 0:
			v.State = "live"
		}
		views = append(views, v)
	}
	return views, nil
}

// BreakGlassCheck holds a request to the rules, for [request.LookOptions].Checks. The
// cluster's policy does the same, if it is installed.
func BreakGlassCheck(_ context.Context, _ *csr.Client, v *request.View) error {
	sealed := slices.Contains(v.Groups, request.SealedGroup)
	if !sealed && !slices.Contains(v.Groups, request.BreakGlassGroup) {
		v.Refuse("", nil, "it asks for neither of the groups "+request.BreakGlassGroup+" and "+request.SealedGroup)
		return nil
	}
	if n := v.Object.Spec.ExpirationSeconds; !sealed && (n == nil || time.Duration(*n)*time.Second > BreakGlassLifetime) {
		v.Refuse("", nil, "it asks for more than "+span.Of(BreakGlassLifetime))
	}
	if strings.TrimSpace(v.Note) == "" {
		v.Refuse("", nil, "it gives no reason")
	}
	return nil
}

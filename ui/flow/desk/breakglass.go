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
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// Break-glass is a certificate of a group that may do everything, for an hour,
// with a reason, approved by a second person. The cluster's policy sees to the rules
// (assets, "breakglass"); here they are only made convenient.
const BreakGlassLifetime = time.Hour

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

// BreakGlass prepares and lists enrollments for emergencies.
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
			"give a reason with --reason: the second person reads it, and the request keeps it")
	}
	if o.Lifetime == 0 {
		o.Lifetime = BreakGlassLifetime
	}
	if o.Lifetime < csr.MinExpiration || o.Lifetime > BreakGlassLifetime {
		return enrolling.Options{}, hint.Withf(fmt.Errorf("%w for %s", request.ErrForecast, span.Of(o.Lifetime)),
			"break-glass lasts %s to %s", span.Of(csr.MinExpiration), span.Of(BreakGlassLifetime))
	}
	return b.asCaller(ctx, o.Context, o.Name, enrolling.Options{
		Token: o.Token, Key: o.Key, Generate: o.Generate, AcceptDefaults: o.AcceptDefaults, Timeout: o.Timeout,
		Groups: []string{request.BreakGlassGroup}, Expiration: o.Lifetime, Reason: o.Reason, KeepCurrent: true,
	})
}

// asCaller completes an enrollment for the caller of a context, with the
// caller's own key if the context is kubehsm's.
func (b BreakGlass) asCaller(ctx context.Context, kubeContext, name string, o enrolling.Options) (enrolling.Options,
	error) {
	c, err := b.env.Rules().Get(ctx, kubeContext)
	if err != nil {
		return o, err
	}
	o.Context, o.Name = c.Name, name
	enrolling.Fill(&o.Name, enrolling.Slug(strings.TrimSuffix(c.Name, "-hsm"))+"-break-glass")
	if en, err := b.env.Enrollments().Load(c.User.Enrollment); c.Cluster.Ours() && err == nil {
		enrolling.Fill(&o.User, en.User)
		if o.Token.Scheme == "" && o.Key.Scheme == "" {
			o.Key, o.Token = en.Key, en.Key.TokenOnly()
		}
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

// BreakGlassView is an enrollment for emergencies.
type BreakGlassView struct {
	Name     string    `json:"name"`
	User     string    `json:"user"`
	Server   string    `json:"server"`
	Key      string    `json:"key"`
	NotAfter time.Time `json:"notAfter"`
	// State is "live" or "expired".
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
		if !slices.Contains(en.Groups, request.BreakGlassGroup) {
			continue
		}
		v := BreakGlassView{Name: en.Name, User: en.User, Server: en.Cluster.Server, Key: en.Key.String(),
			State: "expired"}
		chain, err := b.env.Enrollments().Certificate(en)
		if err != nil && !errors.Is(err, hsm.ErrNoCertificate) {
			return nil, err
		}
		if len(chain) > 0 {
			v.NotAfter = chain[0].NotAfter
		}
		if v.NotAfter.After(time.Now()) {
			v.State = "live"
		}
		views = append(views, v)
	}
	return views, nil
}

// BreakGlassCheck holds a request to the rules, for [request.LookOptions].Checks. The
// cluster's policy does the same, if it is installed.
func BreakGlassCheck(_ context.Context, _ *csr.Client, v *request.View) error {
	if !slices.Contains(v.Groups, request.BreakGlassGroup) {
		v.Refuse("", nil, "it does not ask for the group "+request.BreakGlassGroup)
		return nil
	}
	if n := v.Object.Spec.ExpirationSeconds; n == nil || time.Duration(*n)*time.Second > BreakGlassLifetime {
		v.Refuse("", nil, "it asks for more than "+span.Of(BreakGlassLifetime))
	}
	if strings.TrimSpace(v.Note) == "" {
		v.Refuse("", nil, "it gives no reason")
	}
	return nil
}

package tui

import (
	"context"
	"iter"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/ui/flow/deeds"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// The methods below hand on to the use cases what screens ask for.

func (b *backend) ApplyRBAC(ctx context.Context, kubeContext string, sets []string, dryRun bool, force bool) ([]desk.RBACObject, error) {
	return desk.NewRoles(b.Env).Apply(ctx, kubeContext, sets, dryRun, force)
}

func (b *backend) BootstrapTokens(ctx context.Context, kubeContext string, reveal bool) ([]desk.BootstrapToken, []string, error) {
	return desk.NewBootstrapTokens(b.Env).List(ctx, kubeContext, reveal)
}

func (b *backend) BreakGlass(ctx context.Context, o desk.BreakGlassOptions) (enrolling.Options, error) {
	return desk.NewBreakGlass(b.Env).Request(ctx, o)
}

func (b *backend) BreakGlassList() ([]desk.BreakGlassView, error) {
	return desk.NewBreakGlass(b.Env).List()
}

func (b *backend) CancelRequest(ctx context.Context, kubeContext string, name string) error {
	return request.NewOwn(b.Env).Cancel(ctx, kubeContext, name)
}

func (b *backend) CheckRBAC(ctx context.Context, kubeContext string, sets []string) ([]desk.RBACObject, error) {
	return desk.NewRoles(b.Env).Check(ctx, kubeContext, sets)
}

func (b *backend) Complete(ctx context.Context, o enrolling.Options) (enrolling.Options, error) {
	return enroll.NewEnroller(b.Env).Complete(ctx, o)
}

func (b *backend) CreateBootstrapToken(ctx context.Context, kubeContext string, r bootstraptoken.Record, join bool) (desk.BootstrapToken, error) {
	return desk.NewBootstrapTokens(b.Env).Create(ctx, kubeContext, r, join)
}

func (b *backend) CreateRequest(ctx context.Context, o enrolling.Options, p hsm.Prompter) (request.View, error) {
	return request.NewOwn(b.Env).Create(ctx, "", o, p)
}

func (b *backend) Deeds() ([]deeds.Deed, error) {
	return deeds.NewLog(b.Env).All()
}

func (b *backend) DeleteBootstrapToken(ctx context.Context, kubeContext string, id string) error {
	return desk.NewBootstrapTokens(b.Env).Delete(ctx, kubeContext, id)
}

func (b *backend) Enroll(ctx context.Context, o enrolling.Options, p hsm.Prompter, report func(enrolling.Event)) (enrolling.Result, error) {
	return enroll.NewEnroller(b.Env).Enroll(ctx, o, p, report)
}

func (b *backend) ForgetSealKey(id string) error {
	return desk.NewTickets(b.Env).ForgetSealKey(id)
}

func (b *backend) LookUpRevocation(ctx context.Context, kubeContext string, user string, groups []string) (desk.Revocation, error) {
	return desk.NewRevocations(b.Env).LookUp(ctx, kubeContext, user, groups)
}

func (b *backend) MakeTicket(ctx context.Context, kubeContext string, o desk.TicketOptions) (desk.IssuedTicket, error) {
	return desk.NewTickets(b.Env).Make(ctx, kubeContext, o)
}

func (b *backend) NewJoinPUK(ctx context.Context, o enrolling.Options, showable func() error, p hsm.Prompter) (*enroll.JoinPUK, error) {
	return enroll.NewJoins(b.Env).NewPUK(ctx, o, showable, p)
}

func (b *backend) OpenSealed(id string, serial string, sealed []byte) (*hsm.Secret, error) {
	return desk.NewTickets(b.Env).OpenSealed(id, serial, sealed)
}

func (b *backend) OwnRequests(ctx context.Context, kubeContext string) ([]request.View, error) {
	return request.NewOwn(b.Env).List(ctx, kubeContext)
}

func (b *backend) RecordBreakGlass(ctx context.Context, r enrolling.Result, reason string) error {
	return desk.NewBreakGlass(b.Env).Record(ctx, r, reason)
}

func (b *backend) RefuseDefaults(ctx context.Context, token hsm.URI, puk bool) error {
	return enroll.NewJoins(b.Env).RefuseDefaults(ctx, token, puk)
}

func (b *backend) Requests(ctx context.Context, kubeContext string, f request.Filter) (iter.Seq2[request.View, error], error) {
	return request.NewRequests(b.Env).List(ctx, kubeContext, f)
}

func (b *backend) ResumeRequest(ctx context.Context, kubeContext string, name string) (request.View, error) {
	return request.NewOwn(b.Env).Resume(ctx, kubeContext, name)
}

func (b *backend) Review(ctx context.Context, o enrolling.Options) (enroll.Review, error) {
	return enroll.NewEnroller(b.Env).Review(ctx, o)
}

func (b *backend) Revoke(ctx context.Context, kubeContext string, r *desk.Revocation) error {
	return desk.NewRevocations(b.Env).Revoke(ctx, kubeContext, r)
}

func (b *backend) Rights(ctx context.Context, kubeContext string) ([]desk.RBACRight, error) {
	return desk.NewRoles(b.Env).Rights(ctx, kubeContext)
}

func (b *backend) Sealed(ctx context.Context, kubeContext string, name string, o enrolling.Options) (enrolling.Options, error) {
	return desk.NewBreakGlass(b.Env).Seal(ctx, kubeContext, name, o)
}

func (b *backend) TakeCertificate(ctx context.Context, name string, pem []byte) error {
	return enroll.NewJoins(b.Env).TakeCertificate(ctx, name, pem)
}

func (b *backend) Unfinished(ctx context.Context) ([]enrolling.Progress, error) {
	return enrolling.NewStore(b.Env).Unfinished(ctx)
}

func (b *backend) WatchRequests(ctx context.Context, kubeContext string, f request.Filter) (iter.Seq2[request.Event, error], error) {
	return request.NewRequests(b.Env).Watch(ctx, kubeContext, f)
}

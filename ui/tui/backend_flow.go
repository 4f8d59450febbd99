package tui

import (
	"context"
	"iter"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// The methods below hand on to the use cases what screens ask for.

func (b *backend) CancelRequest(ctx context.Context, kubeContext string, name string) error {
	return request.NewOwn(b.Env).Cancel(ctx, kubeContext, name)
}

func (b *backend) CreateRequest(ctx context.Context, o enrolling.Options, p hsm.Prompter) (request.View, error) {
	return request.NewOwn(b.Env).Create(ctx, "", o, p)
}

func (b *backend) OwnRequests(ctx context.Context, kubeContext string) ([]request.View, error) {
	return request.NewOwn(b.Env).List(ctx, kubeContext)
}

func (b *backend) Requests(ctx context.Context, kubeContext string, f request.Filter) (iter.Seq2[request.View, error], error) {
	return request.NewRequests(b.Env).List(ctx, kubeContext, f)
}

func (b *backend) ResumeRequest(ctx context.Context, kubeContext string, name string) (request.View, error) {
	return request.NewOwn(b.Env).Resume(ctx, kubeContext, name)
}

func (b *backend) WatchRequests(ctx context.Context, kubeContext string, f request.Filter) (iter.Seq2[request.Event, error], error) {
	return request.NewRequests(b.Env).Watch(ctx, kubeContext, f)
}

package upstream

import (
	"context"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// clientKey carries the client whose request it is.
type clientKey struct{}

// clientContext is a request's context with its client, cheaper than
// [context.WithValue] and a box for it.
type clientContext struct {
	context.Context
	client process.ID
}

func (c *clientContext) Value(key any) any {
	if _, ok := key.(clientKey); ok {
		return c.client
	}
	return c.Context.Value(key)
}

// ClientOf returns the client whose request led to a call of
// [Options.Signer]; ok is false where none did.
func ClientOf(ctx context.Context) (c process.ID, ok bool) {
	c, ok = ctx.Value(clientKey{}).(process.ID)
	return c, ok
}

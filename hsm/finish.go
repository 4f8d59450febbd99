package hsm

import "context"

// finishKey is the key of [WithFinish]'s function.
type finishKey struct{}

// WithFinish has f called by what must not be left half-way, while the end of ctx
// waits for it: it returns what is called at the end. A program that is told to end
// knows by it why it does not.
func WithFinish(ctx context.Context, f func() (done func())) context.Context {
	return context.WithValue(ctx, finishKey{}, f)
}

// Finishing tells whoever waits for the end of ctx that something goes on, until
// done is called.
func Finishing(ctx context.Context) (done func()) {
	f, ok := ctx.Value(finishKey{}).(func() func())
	if !ok {
		return func() {}
	}
	return f()
}

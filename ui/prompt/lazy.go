package prompt

import (
	"context"

	"github.com/kubehsm/kubehsm/hsm"
)

// Lazy makes its prompter when somebody is asked, as most runs ask nobody.
type Lazy func() (hsm.Prompter, error)

// PIN implements [hsm.Prompter].
func (l Lazy) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	to, err := l()
	if err != nil {
		return nil, err
	}
	return to.PIN(ctx, p)
}

// Touch implements [hsm.Prompter].
func (l Lazy) Touch(ctx context.Context, p hsm.TouchPrompt) func() {
	to, err := l()
	if err != nil { // the error comes up where an answer is needed
		return func() {}
	}
	return to.Touch(ctx, p)
}

// Confirm implements [hsm.Prompter].
func (l Lazy) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	to, err := l()
	if err != nil {
		return false, err
	}
	return to.Confirm(ctx, p)
}

package prompt

import (
	"context"

	"github.com/kubehsm/kubehsm/hsm"
)

// None asks nobody: every method returns [hsm.ErrNoTerminal] at once.
type None struct{}

// PIN implements [hsm.Prompter].
func (None) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	return nil, hsm.WithHint(hsm.ErrNoTerminal, unlockHint)
}

// Touch implements [hsm.Prompter]; it shows nothing.
func (None) Touch(context.Context, hsm.TouchPrompt) func() { return func() {} }

// Confirm implements [hsm.Prompter].
func (None) Confirm(context.Context, hsm.ConfirmPrompt) (bool, error) {
	return false, hsm.WithHint(hsm.ErrNoTerminal, unlockHint)
}

package externalsigner

import (
	"context"

	"github.com/kubehsm/kubehsm/hsm"
)

// filePIN answers the first question for the PIN with the one from the
// kubeconfig. A client starts the signer again and again: to burn the tries of
// a token with a wrong PIN must not be possible, so it is used only while no
// wrong one has been counted since the last right one, as far as the token
// tells. Everything else is asked of the person.
type filePIN struct {
	pin    *hsm.Secret
	person hsm.Prompter
	used   bool
}

func (f *filePIN) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	if !f.used && !p.Token.PIN.Counted() && !p.New && (p.Kind == hsm.UserPIN || p.Kind == hsm.PIVPIN) {
		f.used = true
		return f.pin.Clone(), nil
	}
	if f.person == nil {
		return nil, hsm.ErrPINRequired
	}
	return f.person.PIN(ctx, p)
}

func (f *filePIN) Touch(ctx context.Context, p hsm.TouchPrompt) func() {
	if f.person == nil {
		return func() {}
	}
	return f.person.Touch(ctx, p)
}

func (f *filePIN) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	if f.person == nil {
		return false, hsm.ErrNoTerminal
	}
	return f.person.Confirm(ctx, p)
}

package externalsigner

import (
	"context"
	"errors"
	"fmt"

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
	fits := !p.New && (p.Kind == hsm.UserPIN || p.Kind == hsm.PIVPIN)
	if fits && !f.used && !p.Token.PIN.Counted() {
		f.used = true
		return f.pin.Clone(), nil
	}
	err := hsm.ErrPINRequired
	if f.person != nil {
		var s *hsm.Secret
		if s, err = f.person.PIN(ctx, p); !errors.Is(err, hsm.ErrNoTerminal) {
			return s, err
		}
	}
	switch {
	case f.used && p.Again != "": // that nobody could be asked instead is not the point
		err = hsm.WithHint(fmt.Errorf("%w: the one in the kubeconfig", hsm.ErrPINIncorrect), "take it out of there, and type it")
	case fits && p.Again == "" && p.Token.PIN.Counted():
		err = hsm.WithHint(fmt.Errorf("%w, and the PIN in the kubeconfig is not used: the token counts wrong PINs, or has few tries", err),
			"type the right PIN once, which sets the counter back: run the same in a terminal or, if the key is enrolled, `kubehsm agent lock` and then `kubehsm unlock`")
	}
	return nil, err
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

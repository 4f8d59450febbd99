package externalsigner

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// filePIN answers the first question for the PIN with the one from the
// kubeconfig. A client starts the signer again and again: to burn the tries of
// a token with a wrong PIN must not be possible, so it is used only while no
// wrong one has been counted since the last right one, as far as the token
// tells. Everything else is asked of the person.
type filePIN struct {
	pin    *hsm.Secret
	person ask.Func // nil asks nobody
	used   bool
}

// ask is an [ask.Func].
func (f *filePIN) ask(ctx context.Context, q ask.Question) (ask.Answer, error) {
	switch {
	case q.PIN != nil:
		pin, err := f.answer(ctx, q)
		return ask.Answer{PIN: pin}, err
	case f.person == nil:
		return ask.Answer{}, hsm.ErrNoTerminal
	}
	return f.person(ctx, q)
}

func (f *filePIN) answer(ctx context.Context, q ask.Question) (*hsm.Secret, error) {
	p := q.PIN
	fits := !p.New && (p.Kind == hsm.UserPIN || p.Kind == hsm.PIVPIN)
	if fits && !f.used && !p.Token.PIN.Counted() {
		f.used = true
		return f.pin.Clone(), nil
	}
	err := hsm.ErrPINRequired
	if f.person != nil {
		var a ask.Answer
		if a, err = f.person(ctx, q); !errors.Is(err, hsm.ErrNoTerminal) {
			return a.PIN, err
		}
	}
	switch {
	case f.used && p.Again != "": // the first reason counts
		err = hint.With(fmt.Errorf("%w: the one in the kubeconfig", hsm.ErrPINIncorrect), "take it out of there, and type it")
	case fits && p.Again == "" && p.Token.PIN.Counted():
		err = hint.With(fmt.Errorf("%w, and the PIN in the kubeconfig is not used: the token counts wrong PINs, or has few tries", err), "type the right PIN once, which sets the counter back: run the same in a terminal or, if the key is enrolled, `kubehsm agent lock` and then `kubehsm unlock`")
	}
	return nil, err
}

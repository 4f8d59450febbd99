package externalsigner

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// fromFile answers the first question for the PIN with the kubeconfig's, unless the token has
// counted a wrong PIN since the last right one: a client starts the signer again and again, and
// must not use up the tries. The person, if there is one, answers everything else.
func fromFile(pin *hsm.Secret, person ask.Func) ask.Func {
	nobody := person == nil
	if nobody {
		person = ask.Nobody(hsm.ErrNoTerminal)
	}
	used := false
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.PIN == nil {
			return person(ctx, q)
		}
		p := *q.PIN
		fits := !p.New && (p.Kind == hsm.UserPIN || p.Kind == hsm.PIVPIN)
		if fits && !used && !p.Token.PIN.Counted() {
			used = true
			return ask.Answer{PIN: pin.Clone()}, nil
		}
		a, err := person(ctx, q)
		switch {
		case !errors.Is(err, hsm.ErrNoTerminal):
			return a, err
		case nobody:
			err = hsm.ErrPINRequired
		}
		switch {
		case used && p.Again != "": // the first reason counts
			err = hint.With(fmt.Errorf("%w: the one in the kubeconfig", hsm.ErrPINIncorrect),
				"take it out of there, and type it")
		case fits && p.Again == "" && p.Token.PIN.Counted():
			err = hint.With(
				fmt.Errorf("%w, and the PIN in the kubeconfig is not used: the token counts wrong PINs, or has few tries", err),
				"type the right PIN once, which sets the counter back: run the same in a terminal "+
					"or, if the key is enrolled, `kubehsm agent lock` and then `kubehsm unlock`")
		}
		return ask.Answer{}, err
	}
}

package token

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// pukDigits is the length of a random PUK: the longest that PIV knows.
const pukDigits = 8

// FreshPUK answers the question for a new PUK with random digits.
type FreshPUK struct {
	secret *hsm.Secret
	given  bool
}

// NewFreshPUK makes a PUK up.
func NewFreshPUK() (*FreshPUK, error) {
	digits := make([]byte, pukDigits)
	for i := range digits {
		n, err := rand.Int(rand.Reader, big.NewInt(10))
		if err != nil {
			clear(digits)
			return nil, err
		}
		digits[i] = '0' + byte(n.Int64())
	}
	return &FreshPUK{secret: hsm.NewSecret(digits)}, nil
}

// Before leaves all other questions to p.
func (f *FreshPUK) Before(p hsm.Prompter) hsm.Prompter {
	next := ask.From(p)
	return ask.Func(func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		switch {
		case q.PIN == nil || !q.PIN.New || q.PIN.Kind != hsm.PUK:
			return next(ctx, q)
		case q.PIN.Again != "":
			return ask.Answer{}, fmt.Errorf("%w: %s", hsm.ErrPINInvalid, q.PIN.Again)
		}
		f.given = true
		return ask.Answer{PIN: f.secret.Clone()}, nil
	})
}

// InForce returns the PUK, which the caller shows and zeroes, after a change that
// ended with err; nil if it is surely not in force.
func (f *FreshPUK) InForce(err error) *hsm.Secret {
	if !f.given {
		f.secret.Zero()
		return nil
	}
	for _, e := range []error{hsm.ErrPINIncorrect, hsm.ErrPINLocked, hsm.ErrPINInvalid, hsm.ErrCancelled,
		hsm.ErrUnsupported, hsm.ErrNoTerminal} {
		if errors.Is(err, e) {
			f.secret.Zero()
			return nil
		}
	}
	return f.secret
}

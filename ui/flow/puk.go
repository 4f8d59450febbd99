package flow

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"

	"github.com/kubehsm/kubehsm/hsm"
)

// pukDigits is the length of a random PUK: the longest that PIV knows.
const pukDigits = 8

// FreshPUK answers the question for a new PUK with random digits, and leaves all
// others to its Prompter.
type FreshPUK struct {
	hsm.Prompter
	secret *hsm.Secret
	given  bool
}

// NewFreshPUK makes a PUK up.
func NewFreshPUK(p hsm.Prompter) (*FreshPUK, error) {
	digits := make([]byte, pukDigits)
	for i := range digits {
		n, err := rand.Int(rand.Reader, big.NewInt(10))
		if err != nil {
			clear(digits)
			return nil, err
		}
		digits[i] = '0' + byte(n.Int64())
	}
	return &FreshPUK{Prompter: p, secret: hsm.NewSecret(digits)}, nil
}

// PIN implements [hsm.Prompter].
func (f *FreshPUK) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	if !p.New || p.Kind != hsm.PUK {
		return f.Prompter.PIN(ctx, p)
	}
	if p.Again != "" {
		return nil, fmt.Errorf("%w: %s", hsm.ErrPINInvalid, p.Again)
	}
	f.given = true
	return f.secret.Clone(), nil
}

// InForce returns the PUK, which the caller shows and zeroes, after a change that
// ended with err; nil if it is surely not in force.
func (f *FreshPUK) InForce(err error) *hsm.Secret {
	if !f.given {
		f.secret.Zero()
		return nil
	}
	for _, e := range []error{hsm.ErrPINIncorrect, hsm.ErrPINLocked, hsm.ErrPINInvalid, hsm.ErrCancelled, hsm.ErrUnsupported, hsm.ErrNoTerminal} {
		if errors.Is(err, e) {
			f.secret.Zero()
			return nil
		}
	}
	return f.secret
}

package enroll

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// JoinPUK is what became of the PUK of a card that is to join.
type JoinPUK struct {
	// Serial is the card's.
	Serial string
	// Kept says that nothing was changed: the PUK is not the default one any more, or
	// the card does not tell.
	Kept bool
	// Sealed is the new PUK for the help desk whose ticket asks for it, "" if none does.
	Sealed string
	// Secret is the new PUK where it is not sealed, to be shown once and zeroed by
	// the caller. With an error it may be in force all the same. Nil if there is none.
	Secret *hsm.Secret
}

// NewPUK gives a PIV card that is to join a random PUK, once: the default one must
// be in force, so that a join that is gone on with changes nothing again.
// showable is asked before the change where the PUK will have to be shown; nil if
// it always can. Tokens without a PUK are an [hsm.ErrUnsupported].
func (n Joins) NewPUK(ctx context.Context, o enrolling.Options, showable func() error, p hsm.Prompter) (*JoinPUK,
	error) {
	o, err := NewEnroller(n.env).Complete(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Token.Kind().Unblocks != hsm.PUK {
		return nil, hint.With(fmt.Errorf("a PUK: %w", hsm.ErrUnsupported), "only a PIV card has one: join without a new PUK")
	}
	before, err := (token.Tokens{Env: n.env}).Details(ctx, o.Token)
	if err != nil {
		return nil, err
	}
	out := &JoinPUK{Serial: before.Info.Serial}
	if d := before.Details; d == nil || d.PUK == nil || !d.PUK.Default {
		out.Kept = true
		return out, nil
	}
	sealed := o.Join != nil && len(o.Join.Seal) > 0
	if !sealed && showable != nil {
		if err := showable(); err != nil {
			return nil, err
		}
	}
	fresh, err := token.NewFreshPUK()
	if err != nil {
		return nil, err
	}
	_, err = (token.Tokens{Env: n.env}).ChangePIN(ctx, o.Token, hsm.PUK, fresh.Before(p))
	out.Secret = fresh.InForce(err)
	if out.Secret == nil || !sealed {
		return out, err
	}
	text, sealErr := o.Join.SealPUK(out.Serial, out.Secret.Bytes())
	if sealErr != nil { // better shown than lost
		return out, errors.Join(err, sealErr)
	}
	out.Secret.Zero()
	out.Sealed, out.Secret = text, nil
	return out, err
}

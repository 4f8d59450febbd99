package agent

import (
	"context"
	"errors"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// remotePrompter asks the person at a client, for the length of one operation, or
// somebody else where the client has nobody.
type remotePrompter struct {
	*link.Asker
	// elsewhere returns who can be asked where the client has nobody, such as
	// whoever sits before an open terminal UI, or nil; it may be nil itself.
	elsewhere func() hsm.Prompter
	soon      func(context.Context) // waits for whoever is about to be there; set with elsewhere
	terminal  bool                  // the client is known to have a controlling terminal, which shows a touch
	who       process.ID            // is asked on its terminal

	understandsWaits bool
}

var _ hsm.Prompter = (*remotePrompter)(nil)

func newRemotePrompter(l *link.Server) *remotePrompter {
	r := &remotePrompter{Asker: link.NewAsker(l)}
	r.Shows = func(ctx context.Context) { shownBy(ctx, r) }
	return r
}

// PIN implements [hsm.Prompter].
func (r *remotePrompter) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	pin, err := r.Asker.PIN(ctx, p)
	if other := r.other(ctx, err); other != nil {
		if pin, oerr := other.PIN(ctx, p); !errors.Is(oerr, hsm.ErrNoTerminal) {
			return pin, oerr
		}
	}
	return pin, err
}

// Confirm implements [hsm.Prompter].
func (r *remotePrompter) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	yes, err := r.Asker.Confirm(ctx, p)
	if other := r.other(ctx, err); other != nil {
		if yes, oerr := other.Confirm(ctx, p); !errors.Is(oerr, hsm.ErrNoTerminal) {
			return yes, oerr
		}
	}
	return yes, err
}

// other returns who is asked instead of a client that has no terminal, if err
// says so: nil if it does not, or nobody is there.
func (r *remotePrompter) other(ctx context.Context, err error) hsm.Prompter {
	if r.elsewhere == nil || !errors.Is(err, hsm.ErrNoTerminal) {
		return nil
	}
	r.soon(ctx)
	return r.elsewhere()
}

// Touch implements [hsm.Prompter].
func (r *remotePrompter) Touch(ctx context.Context, p hsm.TouchPrompt) (done func()) {
	if r.elsewhere != nil && !r.terminal {
		if other := r.elsewhere(); other != nil {
			here := r.Asker.Touch(ctx, p)
			there := other.Touch(ctx, p)
			return func() { there(); here() }
		}
	}
	return r.Asker.Touch(ctx, p)
}

// prompterKey carries a prompter from a prepare to the signature that its dial needs.
type prompterKey struct{}

func withPrompter(ctx context.Context, p hsm.Prompter) context.Context {
	return context.WithValue(ctx, prompterKey{}, p)
}

func prompterOf(ctx context.Context) hsm.Prompter {
	p, _ := ctx.Value(prompterKey{}).(hsm.Prompter)
	return p
}

package host

import (
	"context"
	"errors"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// remotePrompter asks the person at a client, for the length of one operation, or
// somebody else where the client has nobody.
type remotePrompter struct {
	*link.Asker
	// elsewhere returns who can be asked where the client has nobody, such as
	// whoever sits before an open terminal UI, or nil; it may be nil itself.
	elsewhere func() ask.Func
	soon      func(context.Context) // function that waits for a responder about to come; set with elsewhere
	terminal  bool                  // the client is known to have a controlling terminal, which shows a touch
	who       process.ID            // the process that is asked on its terminal

	understandsWaits bool
}

func newRemotePrompter(l *link.Server) *remotePrompter {
	r := &remotePrompter{Asker: link.NewAsker(l)}
	r.By = r
	return r
}

// Process implements [ask.Responder].
func (r *remotePrompter) Process() process.ID { return r.who }

// Ask is an [ask.Func].
func (r *remotePrompter) Ask(ctx context.Context, q ask.Question) (ask.Answer, error) {
	if q.Touch != nil {
		return r.touch(ctx, q)
	}
	a, err := r.Asker.Ask(ctx, q)
	if q.Reach {
		return a, err
	}
	if other := r.other(ctx, err); other != nil {
		if a, oerr := other(ctx, q); !errors.Is(oerr, hsm.ErrNoTerminal) {
			return a, oerr
		}
	}
	return a, err
}

// other returns who is asked instead of a client that has no terminal, if err
// says so: nil if it does not, or nobody is there.
func (r *remotePrompter) other(ctx context.Context, err error) ask.Func {
	if r.elsewhere == nil || !errors.Is(err, hsm.ErrNoTerminal) {
		return nil
	}
	r.soon(ctx)
	return r.elsewhere()
}

// touch shows a touch at the client, and elsewhere too if the client has no terminal.
func (r *remotePrompter) touch(ctx context.Context, q ask.Question) (ask.Answer, error) {
	if r.elsewhere != nil && !r.terminal {
		if other := r.elsewhere(); other != nil {
			here, _ := r.Asker.Ask(ctx, q) // a touch that is shown has no error
			there, err := other(ctx, q)
			if err != nil { // the client shows nothing
				there = ask.Answer{}
			}
			return ask.Answer{Done: func() { there.Down(); here.Down() }}, nil
		}
	}
	return r.Asker.Ask(ctx, q)
}

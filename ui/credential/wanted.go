package credential

import (
	"context"
	"io"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// withdrawTime is how long the agent has to take in that a question is withdrawn. A test has none.
var withdrawTime = time.Second

// whileWanted is ctx until the program that started this one has ended or nobody can read out
// any more: where a shell started the plugin, it runs on when kubectl is killed. Then the
// questions of p are withdrawn by [ask.ErrGone], which the agent does not take for a no to other
// programs that wait. A moment later ctx ends.
func whileWanted(ctx context.Context, out io.Writer, p hsm.Prompter) (context.Context, hsm.Prompter,
	context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	wanted, withdraw := context.WithCancelCause(ctx)
	gone := func() {
		withdraw(ask.ErrGone)
		time.AfterFunc(withdrawTime, func() { cancel(ask.ErrGone) })
	}
	if parent := process.Parent(); parent.Known() && whenGone(parent, gone) != nil {
		gone()
	}
	whenUnread(out, gone)
	next := ask.From(p)
	return ctx, ask.Func(func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.Touch != nil { // it is shown until it is taken down
			return next(ctx, q)
		}
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(wanted, func() { end(context.Cause(wanted)) })()
		return next(ctx, q)
	}), cancel
}

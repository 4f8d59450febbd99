package ask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// Limit is how long a prompt stays that nobody answers: others may wait for its end.
const Limit = 2 * time.Minute

// ErrGone says that nobody waits for the answer any more: no person has declined to give it.
var ErrGone = errors.New("the program that asked has ended")

// Question is what a person is asked, or shown to do: one of PIN, Confirm, Touch and
// Reach is set. A function that changes what a prompt says changes a copy of it.
type Question struct {
	PIN     *hsm.PINPrompt
	Confirm *hsm.ConfirmPrompt
	// Touch is shown until the answer's Done is called.
	Touch *hsm.TouchPrompt
	// Reach asks nobody anything: the answer is whether a touch would be seen now. It is
	// [hsm.ErrNoTerminal] if it would not, and [hsm.ErrUnsupported] from who cannot tell,
	// who is asked a question first.
	Reach bool

	// Raw says that the program which waits for the answer holds its terminal in raw mode
	// already, and reads nothing from it yet: "kubectl exec -it" sets it before it connects.
	Raw bool
	// Shared, if not nil, tells when a prompt is about to go whether other programs may
	// have written to its terminal: to take the prompt off it could take those lines too,
	// so it stays.
	Shared func() bool
	// Shown, if not nil, is called by what shows the question to a person, each time.
	Shown func(by Responder)
}

// Responder is where a person answers. It compares with ==.
type Responder interface {
	// Process is the program that shows the prompts.
	Process() process.ID
}

// ShownBy says who shows the question.
func (q Question) ShownBy(r Responder) {
	if q.Shown != nil && r != nil {
		q.Shown(r)
	}
}

// Answer is what came of a [Question].
type Answer struct {
	// PIN is the secret; whoever asked zeroes it.
	PIN *hsm.Secret
	// Given says that a file, a descriptor or another source has given the PIN: nobody has
	// read the question.
	Given bool
	// Yes is the answer to Confirm.
	Yes bool
	// Done takes a touch down; it is called once or more. Nil if none is shown.
	Done func()
}

// Down takes a touch down, if one is shown.
func (a Answer) Down() {
	if a.Done != nil {
		a.Done()
	}
}

// Func asks. It is safe for concurrent use. Errors: [hsm.ErrCancelled] when the person
// declines to answer, [hsm.ErrNoTerminal] when nobody can be asked, [hsm.ErrUnsupported]
// for Reach, or ctx's error. A touch is shown, or not: it returns at once and its error
// says only that nothing is shown. Nil asks nobody.
type Func func(ctx context.Context, q Question) (Answer, error)

// Middleware puts something before a [Func].
type Middleware func(next Func) Func

var _ hsm.Prompter = Func(nil)

// PIN implements [hsm.Prompter].
func (f Func) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	a, err := f(ctx, Question{PIN: &p})
	return a.PIN, err
}

// Touch implements [hsm.Prompter].
func (f Func) Touch(ctx context.Context, p hsm.TouchPrompt) (done func()) {
	a, err := f(ctx, Question{Touch: &p})
	if err != nil || a.Done == nil {
		return func() {}
	}
	return a.Done
}

// Confirm implements [hsm.Prompter].
func (f Func) Confirm(ctx context.Context, p hsm.ConfirmPrompt) (bool, error) {
	a, err := f(ctx, Question{Confirm: &p})
	return a.Yes, err
}

// TimedOut is the error of a prompt that nobody has answered for that long; it wraps
// [context.DeadlineExceeded].
func TimedOut(after time.Duration) error {
	return fmt.Errorf("nobody answered the prompt within %s: %w", span.Limit(after), context.DeadlineExceeded)
}

// Prompter returns f for a driver: nil if f is nil, which a driver takes for nobody.
func (f Func) Prompter() hsm.Prompter {
	if f == nil {
		return nil
	}
	return f
}

// From returns the function that asks p; nil if p is nil. A p that is none of this
// package's cannot tell whether a touch would be seen.
func From(p hsm.Prompter) Func {
	switch p := p.(type) {
	case nil:
		return nil
	case Func:
		return p
	}
	return func(ctx context.Context, q Question) (a Answer, err error) {
		switch {
		case q.PIN != nil:
			a.PIN, err = p.PIN(ctx, *q.PIN)
		case q.Confirm != nil:
			a.Yes, err = p.Confirm(ctx, *q.Confirm)
		case q.Touch != nil:
			a.Done = p.Touch(ctx, *q.Touch)
		default:
			err = hsm.ErrUnsupported
		}
		return a, err
	}
}

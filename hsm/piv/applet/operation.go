package applet

import (
	"context"
	"sync"
	"sync/atomic"
)

// Operation is one piece of work on a card. Who waits for it may give it up until it
// commits; the zero value is one that has just begun.
type Operation struct {
	phase atomic.Int32
	// line takes down what tells of a touch; whoever gives up does, too.
	line atomic.Pointer[func()]
}

// The phases of an operation.
const (
	running   = iota
	committed // the operation is finished, whatever becomes of the caller's context
	givenUp   // the caller has left
)

// commit tells whether the operation is to be finished; false if it was given up.
func (o *Operation) commit() bool {
	return o.phase.CompareAndSwap(running, committed) || o.phase.Load() == committed
}

// GiveUp gives the operation up, and takes down what it shows. It returns false if the
// operation has committed: then its end is to be awaited.
func (o *Operation) GiveUp() bool {
	if !o.phase.CompareAndSwap(running, givenUp) {
		return false
	}
	if down := o.line.Load(); down != nil {
		(*down)() // the line goes before anything is said of the end
	}
	return true
}

// Show has show tell that a touch may be awaited, until the returned function is
// called, ctx ends, or the operation is given up.
func (o *Operation) Show(ctx context.Context, show func() (down func())) (done func()) {
	if o.phase.Load() == givenUp {
		return func() {}
	}
	down := sync.OnceFunc(show())
	o.line.Store(&down)
	if o.phase.Load() == givenUp { // the one who gave it up did not see what is shown
		down()
	}
	stop := context.AfterFunc(ctx, down)
	return func() {
		stop()
		down()
	}
}

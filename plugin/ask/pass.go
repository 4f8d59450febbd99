package ask

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
)

// Nobody answers each question with err, and shows no touch.
func Nobody(err error) Func {
	return func(context.Context, Question) (Answer, error) { return Answer{}, err }
}

// First asks the first function that does not return [hsm.ErrNoTerminal]. A touch is
// shown by all of them. It panics without functions.
func First(all ...Func) Func {
	if len(all) == 0 {
		panic("ask.First: nobody to ask")
	}
	return func(ctx context.Context, q Question) (Answer, error) {
		if q.Touch != nil {
			return everywhere(ctx, all, q)
		}
		var none error
		for _, f := range all {
			a, err := f(ctx, q)
			if !errors.Is(err, hsm.ErrNoTerminal) {
				return a, err
			}
			none = errors.Join(none, err)
		}
		return Answer{}, none
	}
}

// everywhere shows a touch with all of them.
func everywhere(ctx context.Context, all []Func, q Question) (Answer, error) {
	shown := make([]Answer, 0, len(all))
	for _, f := range all {
		if a, err := f(ctx, q); err == nil {
			shown = append(shown, a)
		}
	}
	return Answer{Done: sync.OnceFunc(func() {
		for _, a := range shown {
			a.Down()
		}
	})}, nil
}

// about changes what a question says of its purpose.
func about(q Question, change func(*hsm.Purpose)) Question {
	switch {
	case q.PIN != nil:
		p := *q.PIN
		change(&p.Purpose)
		q.PIN = &p
	case q.Touch != nil:
		p := *q.Touch
		change(&p.Purpose)
		q.Touch = &p
	}
	return q
}

// Noticed is q with a notice that the person must read first.
func Noticed(q Question, notice string) Question {
	return about(q, func(p *hsm.Purpose) { p.Notice = notice })
}

// For says what is asked for, where a question names neither cluster nor action: the
// purpose that is nearest to who asks counts. A command or a notice that it has stays.
func For(purpose hsm.Purpose) Middleware {
	return func(next Func) Func {
		return change(next, func(p *hsm.Purpose) {
			if p.Cluster == "" && p.Action == "" {
				p.Cluster, p.Action, p.Fields = purpose.Cluster, purpose.Action, purpose.Fields
				p.Command, p.Notice = cmp.Or(p.Command, purpose.Command), cmp.Or(p.Notice, purpose.Notice)
			}
		})
	}
}

// By names the program that waits, where a question does not.
func By(command string) Middleware {
	return func(next Func) Func {
		return change(next, func(p *hsm.Purpose) { p.Command = cmp.Or(p.Command, command) })
	}
}

// change changes the purpose of what next is asked; nil stays nil.
func change(next Func, f func(*hsm.Purpose)) Func {
	if next == nil {
		return nil
	}
	return func(ctx context.Context, q Question) (Answer, error) { return next(ctx, about(q, f)) }
}

// Typed has next asked for PINs that are given for this purpose, by a person or a program: no
// source of the configuration answers.
func Typed(next Func) Func {
	if next == nil {
		return nil
	}
	return func(ctx context.Context, q Question) (Answer, error) {
		if q.PIN != nil {
			p := *q.PIN
			p.Typed = true
			q.PIN = &p
		}
		return next(ctx, q)
	}
}

// With has p asked for a purpose: [For], for who has a prompter. Nil stays nil.
func With(p hsm.Prompter, purpose hsm.Purpose) hsm.Prompter {
	return For(purpose)(From(p)).Prompter()
}

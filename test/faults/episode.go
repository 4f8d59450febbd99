//go:build linux && cgo

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

const (
	// patience is how long a command may take that nothing disturbs, and disturbed how
	// long one with a fault may.
	patience  = 90 * time.Second
	disturbed = 60 * time.Second
)

// episode is a lab with a model of it.
type episode struct {
	*world
	id    string
	seed  uint64
	model model
	// history are the steps, as they are shown when one fails.
	history []string
	// begun is the enrollment that was begun last.
	begun string
	// middle is the kubeconfig between the fault and the second run.
	middle []byte
	// changed tells that the last step changed the kubeconfig: that can be undone just if
	// its backup is there.
	changed bool
	// lockLeft tells that a killed process may have left the kubeconfig's lock, which
	// the next one takes over.
	lockLeft bool
	// struck are the faults that struck somebody.
	struck int
}

// step does one operation with a fault, makes up for it, and compares. All that is
// chosen is chosen by the step's own seed.
func (e *episode) step(ctx context.Context, n int) error {
	r := rand.New(rand.NewPCG(e.seed, uint64(n)))
	d, o, err := e.plan(ctx, n, r)
	if d == nil || err != nil {
		return err
	}
	f := e.pickFault(r, o)
	e.history = append(e.history, fmt.Sprintf("%d: %s; %s", n, d.what, f))
	if err := e.disturb(ctx, d, f); err != nil {
		return fmt.Errorf("step %d, %s with %s: %w", n, d.what, f, err)
	}
	return nil
}

// plan picks an operation for which there is occasion.
func (e *episode) plan(ctx context.Context, n int, r *rand.Rand) (*deed, operation, error) {
	all := operations()
	if n == 0 { // Nothing else can be done yet.
		d, err := enroll(ctx, e, r)
		return d, all[0], err
	}
	if e.changed && r.IntN(2) == 0 {
		if d, err := undo(ctx, e, r); d != nil || err != nil {
			return d, all[slices.IndexFunc(all, func(o operation) bool { return o.name == undoing })], err
		}
	}
	total := 0
	for _, o := range all {
		total += o.weight
	}
	for range 20 {
		at := r.IntN(total)
		for _, o := range all {
			if at -= o.weight; at >= 0 {
				continue
			}
			if d, err := o.plan(ctx, e, r); d != nil || err != nil {
				return d, o, err
			}
			break
		}
	}
	return nil, operation{}, nil
}

// note adds to what is said of the step.
func (e *episode) note(format string, args ...any) {
	last := len(e.history) - 1
	e.history[last] += "\n      " + strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", "\n      ")
}

// do runs d's command.
func (e *episode) do(ctx context.Context, d *deed, limit time.Duration) (lab.Result, error) {
	if d.typed {
		return e.typed(ctx, limit, d.args...)
	}
	program := d.program
	if program == "" {
		program = e.Binary
	}
	return e.run(ctx, limit, d.run, program, slices.Clone(d.args)...)
}

func (e *episode) disturb(ctx context.Context, d *deed, f fault) error {
	before, err := e.config()
	if err != nil {
		return err
	}
	e.arm(f)
	res, err := e.do(ctx, d, disturbed)
	where, seen := e.rig.disarm()
	if where == "" {
		// Nobody came to that point: what runs now is struck while it rests.
		where = "after it had ended"
		if pids := e.of(f.role); len(pids) > 0 {
			err = errors.Join(err, f.do(e.world, pids[0]))
			e.struck++
		} else {
			where = "nowhere"
		}
	} else {
		e.struck++
	}
	e.note("struck: %s\nended with %d: %s", where, res.Code, lastLine(res.Stderr))
	if err != nil {
		e.note("points:\n%s", strings.Join(seen, "\n"))
		return errors.Join(err, e.heal(f))
	}
	if err := errors.Join(e.heal(f), e.between(d, before)); err != nil {
		e.note("%s\npoints:\n%s", res, strings.Join(seen, "\n"))
		return fmt.Errorf("after the fault: %w", err)
	}
	if res, err = e.finish(ctx, d, res); err != nil {
		return err
	}
	if err := e.edited(d, before); err != nil {
		return err
	}
	if d.done != nil {
		if err := d.done(ctx, res); err != nil {
			return fmt.Errorf("when it had ended: %w", err)
		}
	}
	return e.compare(ctx)
}

// finish runs the command again, unless it is done, until it has come to its end.
func (e *episode) finish(ctx context.Context, d *deed, res lab.Result) (lab.Result, error) {
	if d.once {
		done := res.Code == 0
		if !done && !d.refused && d.did != nil {
			var err error
			if done, err = d.did(ctx); err != nil {
				return res, err
			}
		}
		if done {
			if d.edits { // another command leaves the lock as it is
				e.lockLeft = res.Code != 0
			}
			return res, nil
		}
	}
	e.lockLeft = e.lockLeft && !d.edits
	if d.before != nil {
		if err := d.before(ctx); err != nil {
			return res, fmt.Errorf("before it is run again: %w", err)
		}
	}
	for tries := 0; ; tries++ {
		res, err := e.do(ctx, d, patience)
		if err != nil {
			return res, err
		}
		if (res.Code != 0) == d.refused {
			return res, nil
		}
		// Ports of an episode may be another one's for a moment.
		if tries < 20 && strings.Contains(res.Stderr, "port is taken") {
			<-time.After(250 * time.Millisecond)
			continue
		}
		// A fault that strikes late ends the agent only now. The program says to run it again.
		if tries == 0 && strings.Contains(res.Stderr, "the agent has ended") {
			continue
		}
		// After its third end within a minute a driver is left alone for a while, which is
		// said; another agent does not know of that.
		if tries == 0 && strings.Contains(res.Stderr, "3 times within a minute") {
			if _, err := lab.Succeeded(e.run(ctx, patience, lab.Run{}, e.Binary, "agent", "stop")); err != nil {
				return res, err
			}
			continue
		}
		return res, fmt.Errorf("run again, it must be refused: %v: %s", d.refused, res)
	}
}

// edited compares the kubeconfig with what must have come of d.
func (e *episode) edited(d *deed, before []byte) error {
	now, err := e.config()
	if err != nil {
		return err
	}
	switch {
	case e.middle != nil && !bytes.Equal(e.middle, before) && !bytes.Equal(e.middle, now):
		return fmt.Errorf("after the fault the kubeconfig was neither what it was before nor what it is now:\n%s", e.middle)
	case !d.edits && !bytes.Equal(now, before):
		return fmt.Errorf("the kubeconfig has changed:\n%s", now)
	case d.want != nil && !bytes.Equal(now, d.want):
		return fmt.Errorf("the kubeconfig is\n%s\nwant\n%s", now, d.want)
	}
	if e.changed = !bytes.Equal(now, before); e.changed {
		e.model.made = append(e.model.made, before)
	}
	return e.foreign(now)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}

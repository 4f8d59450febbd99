//go:build linux && cgo

package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// fault is what happens in a step, and where.
type fault struct {
	name string
	role role
	at   int
	// after, if not empty, begins a point from which on at counts those of all roles.
	after string
	// do strikes; heal takes back what does not end by itself.
	do   func(w *world, pid int) error
	heal func(w *world) error
	// clock is by how much the wall clock jumps.
	clock time.Duration
}

func (f fault) String() string {
	where := fmt.Sprintf(" at point %d of the %s", f.at, f.role)
	if f.after != "" {
		where = fmt.Sprintf(" at point %d from %q on", f.at, f.after)
	}
	if f.clock != 0 {
		return f.name + " by " + f.clock.String() + where
	}
	return f.name + where
}

// jumps are by how much a clock jumps: beyond the unlock window, beyond a session's
// longest, back to before what was written last, and a little.
var jumps = []time.Duration{31 * time.Minute, 9 * time.Hour, -10 * time.Minute, -2 * time.Second, 90 * time.Second}

// The numbers from which on the command is killed, whoever is at the point, and the clock
// jumps.
const (
	killCommand = 35
	clockJumps  = 79
)

// pickFault takes one for an operation, by numbers that the step's seed gives.
func (w *world) pickFault(r *rand.Rand, o operation) fault {
	roles := []role{command, command, command, agent, agent, worker, credential, attendant}
	roles = slices.DeleteFunc(roles, func(who role) bool { return o.reach[who] == 0 })
	f := fault{role: roles[r.IntN(len(roles))]}
	f.at = 1 + r.IntN(o.reach[f.role])
	n, jump := r.IntN(100), r.IntN(len(jumps))
	often := r.IntN(3)
	_, isSoft := w.token.(*soft)
	switch {
	case often == 0 && o.kind == timed: // early, before it is recorded
		n, f.at = clockJumps, 1+r.IntN(4)
	case often == 1 && o.kind == timed: // the change is made, and its record not yet at its end
		n, f.after, f.at = 0, "renamed to v/c/config", 1+r.IntN(3)
	case often == 0 && o.kind == making && isSoft: // while the key is made
		f.after, f.at = "token GenerateKeyPair", 1+r.IntN(12)
	case often == 1 && o.kind == making && isSoft: // the token has the key, and nobody else knows
		n, f.after, f.at = r.IntN(killCommand+10), "token GenerateKeyPair", 2+r.IntN(6)
	}
	switch {
	case n < killCommand:
		f.name = "SIGKILL"
		f.do = func(_ *world, pid int) error { signal(pid, syscall.SIGKILL); return nil }
	case n < 45:
		f.name = "SIGKILL to the command"
		f.do = (*world).killCommands
	case n < 55:
		f.name = "SIGTERM"
		f.do = func(_ *world, pid int) error { signal(pid, syscall.SIGTERM); return nil }
	case n < 63:
		f.name = "a pause"
		f.do = func(w *world, pid int) error {
			signal(pid, syscall.SIGSTOP)
			w.stopped = append(w.stopped, pid)
			w.after(700*time.Millisecond, func() { signal(pid, syscall.SIGCONT) })
			return nil
		}
	case n < 67:
		f.name = "a hang"
		f.do = func(w *world, pid int) error {
			signal(pid, syscall.SIGSTOP)
			w.stopped = append(w.stopped, pid)
			w.after(2500*time.Millisecond, func() { signal(pid, syscall.SIGKILL) })
			return nil
		}
	case n < clockJumps:
		f.name = "a full disk"
		f.do = func(w *world, _ int) error { return w.fillDisk() }
		f.heal = (*world).emptyDisk
	case n < 87:
		f.name, f.clock = "a jump of the clock", jumps[jump]
		f.do = func(w *world, _ int) error { w.setClock(f.clock); return nil }
		f.heal = func(w *world) error { w.setClock(0); return nil }
	case n < 94:
		f.name = "the token pulled out"
		f.do = func(w *world, _ int) error { return w.token.pull() }
		f.heal = func(w *world) error { return w.token.put() }
	default:
		f.name = "no API server"
		f.do = func(w *world, _ int) error {
			// Who waits for an approval waits for the server too, without end: it comes back.
			w.after(3*time.Second, func() {
				if err := w.serverAway(false); err != nil {
					w.fail(err)
				}
			})
			return w.serverAway(true)
		}
		f.heal = func(w *world) error { return w.serverAway(false) }
	}
	return f
}

// heal ends what a fault has begun: nobody stays suspended.
func (w *world) heal(f fault) error {
	w.timers.Wait()
	for _, pid := range w.stopped {
		signal(pid, syscall.SIGCONT)
	}
	w.stopped = nil
	err := w.struck()
	if f.heal != nil {
		err = errors.Join(err, f.heal(w))
	}
	return err
}

// killCommands kills the command that a person runs. Its worker and the agent live, and go
// on with what they do.
func (w *world) killCommands(int) error {
	all, err := w.processes()
	for _, pid := range all[command] {
		signal(pid, syscall.SIGKILL)
	}
	return err
}

// after does something in a while. The step does not end before it.
func (w *world) after(d time.Duration, do func()) {
	w.timers.Go(func() {
		<-time.After(d)
		do()
	})
}

// arm has f strike.
func (w *world) arm(f fault) {
	w.rig.arm(&strike{role: f.role, at: f.at, after: f.after, do: func(pid int) {
		if err := f.do(w, pid); err != nil {
			w.fail(fmt.Errorf("%s: %w", f, err))
		}
	}})
}

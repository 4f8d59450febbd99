// Package process tells processes apart, also when the system gives one's
// number to another.
package process

import (
	"errors"
	"iter"
	"os"
)

// ID is a process. The zero ID is unknown.
type ID struct {
	PID int `json:"pid,omitempty"`
	// Start tells two processes of one PID apart, in the system's own unit; 0
	// where the system does not tell.
	Start uint64 `json:"start,omitempty"`
}

// ErrEnded says that there is no such process. Any other error says only that the system did not
// tell, as without a free descriptor.
var ErrEnded = errors.New("the process has ended")

// ErrOtherUser says that a process is another user's.
var ErrOtherUser = errors.New("it is another user's process")

// Of is the process that has that number now; it is not known if [Find] fails.
func Of(pid int) ID {
	p, _ := Find(pid)
	return p
}

// Find is the process that has that number now. Errors: [ErrEnded], or the system's.
func Find(pid int) (ID, error) {
	start, _, err := look(pid)
	return ID{PID: pid, Start: start}, err
}

// Parent is the program that started this one: kubectl, to its plugin.
func Parent() ID { return Of(os.Getppid()) }

// This is this process, for a program that uses a session itself.
func This() ID { return Of(os.Getpid()) }

// Known tells whether the process can be told from others.
func (p ID) Known() bool { return p.PID > 0 && p.Start != 0 }

// Alive tells whether the process still runs; one that is unknown, or of which the system does not
// tell now, counts as alive. One that has ended and that its parent has not waited for yet is not alive.
func (p ID) Alive() bool {
	now, err := Find(p.PID)
	return !p.Known() || now == p || err != nil && !errors.Is(err, ErrEnded)
}

// Parent is the process that has started p. Errors are those of [Find].
func (p ID) Parent() (ID, error) {
	start, above, err := look(p.PID)
	switch {
	case err != nil:
		return ID{}, err
	case start != p.Start || start == 0:
		return ID{}, ErrEnded
	}
	parent, err := Find(above)
	// A parent is older than its child. A younger process has got the number of a
	// parent that has ended meanwhile.
	if err == nil && parent.Start > start {
		err = ErrEnded
	}
	return parent, err
}

// maxAncestors bounds [ID.Ancestors].
const maxAncestors = 64

// Ancestors are the parent of the process, the parent's parent and so on, as the
// system tells each when it is wanted. There are none where the process has ended or
// the system does not tell.
func (p ID) Ancestors() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for range maxAncestors {
			parent, err := p.Parent()
			if err != nil || !parent.Known() || !yield(parent) {
				return
			}
			p = parent
		}
	}
}

// Terminal tells the controlling terminals of processes apart; 0 is none, or
// unknown.
func (p ID) Terminal() uint64 { return terminalOf(p.PID) }

// TerminalName is the controlling terminal's, such as /dev/pts/3; "" is none, or
// unknown.
func (p ID) TerminalName() string {
	if t := p.Terminal(); t != 0 {
		return terminalName(t)
	}
	return ""
}

// Package process tells processes apart, also when the system gives one's
// number to another.
package process

import (
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

// Of is the process that has that number now.
func Of(pid int) ID {
	start, _ := look(pid)
	return ID{PID: pid, Start: start}
}

// Parent is the program that started this one: kubectl, to its plugin.
func Parent() ID { return Of(os.Getppid()) }

// This is this process, for a program that uses a session itself.
func This() ID { return Of(os.Getpid()) }

// Known tells whether the process can be told from others.
func (p ID) Known() bool { return p.PID > 0 && p.Start != 0 }

// Alive tells whether the process still runs; an unknown one counts as alive. One
// that has ended and that its parent has not waited for yet is not alive.
func (p ID) Alive() bool { return !p.Known() || Of(p.PID) == p }

// maxAncestors bounds [ID.Ancestors].
const maxAncestors = 64

// Ancestors are the parent of the process, the parent's parent and so on, as the
// system tells each when it is wanted. There are none where the process has ended or
// the system does not tell.
func (p ID) Ancestors() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		start, above := look(p.PID)
		if !p.Known() || start != p.Start {
			return
		}
		for range maxAncestors {
			parent := ID{PID: above}
			parent.Start, above = look(parent.PID)
			// A parent is older than its child. A younger process has got the number of a
			// parent that has ended meanwhile.
			if !parent.Known() || parent.Start > start || !yield(parent) {
				return
			}
			start = parent.Start
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

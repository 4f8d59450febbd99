package bridge

import "os"

// Client is the process that a session is for. The zero Client is unknown.
type Client struct {
	PID int `json:"pid,omitempty"`
	// Start tells two processes of one PID apart, in the system's own unit; 0
	// where the system does not tell.
	Start uint64 `json:"start,omitempty"`
}

// ParentProcess is the program that started this one: kubectl, to its plugin.
func ParentProcess() Client {
	pid := os.Getppid()
	return Client{PID: pid, Start: startOf(pid)}
}

// ThisProcess names this process, for a program that uses a session itself.
func ThisProcess() Client { return Client{PID: os.Getpid(), Start: startOf(os.Getpid())} }

// Known tells whether the client can be told from others.
func (c Client) Known() bool { return c.PID > 0 && c.Start != 0 }

// Alive tells whether the process still runs; an unknown one counts as alive.
func (c Client) Alive() bool { return !c.Known() || startOf(c.PID) == c.Start }

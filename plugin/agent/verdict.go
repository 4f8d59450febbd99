package agent

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// How far an answer reaches. It is one process's, and ends with it: "apply -f dir/"
// is one question, and a program that runs on is asked again.
const (
	grantPause   = 30 * time.Second // between two requests that it covers
	grantLife    = 10 * time.Minute
	refusalPause = 5 * time.Second // kubectl tries exec twice, apply goes on with the next file
)

// class is a kind of request. An answer covers its own kind, and looking.
type class string

const (
	classRead    class = "read"
	classChange  class = "change"
	classDelete  class = "delete"
	classConnect class = "connect"
)

func classOf(r consent.Request) class {
	switch {
	case r.Connecting:
		return classConnect
	case r.Verb == "delete" || r.Verb == "deletecollection":
		return classDelete
	case r.Writes() && r.Verb != "get" && r.Verb != "list" && r.Verb != "watch":
		return classChange
	}
	return classRead
}

// scope is what an answer is for.
type scope struct {
	enrollment string
	client     process.ID
	conn       uint64 // see [bridge.Question]
	as         string
	class      class
}

// lasts tells whether an answer can be in force for more than a request: its
// process runs, or it is for one connection alone.
func (s scope) lasts() bool {
	return s.conn != 0 || s.client.Known() && s.client.Alive()
}

// verdict is an answer.
type verdict struct {
	err         error // nil is a yes
	given, used time.Time
	program     os.FileInfo // the program that the process ran; nil where the system does not tell
}

// programOf is the file of the program that a process runs: another one may take
// its place (execve(2)).
func programOf(p process.ID) os.FileInfo {
	file, err := os.Stat(fmt.Sprintf("/proc/%d/exe", p.PID))
	if err != nil {
		return nil
	}
	return file
}

func (v verdict) runs(program os.FileInfo) bool {
	if v.program == nil || program == nil {
		return v.program == program
	}
	return os.SameFile(v.program, program)
}

func (v verdict) holds(now time.Time) bool {
	if v.err != nil {
		return now.Sub(v.used) < refusalPause
	}
	return now.Sub(v.used) < grantPause && now.Sub(v.given) < grantLife
}

// How many requests may wait for an answer, of one client and in all: each holds
// a stream and memory.
const (
	maxHeld    = 256
	maxHeldAll = 1024
)

// consents are the answers in force and the questions that are open.
type consents struct {
	mu       sync.Mutex
	verdicts map[scope]verdict
	pending  map[*ConsentStatus]struct{}
	held     map[process.ID]int
	heldAll  int
}

func newConsents() *consents {
	return &consents{verdicts: map[scope]verdict{}, pending: map[*ConsentStatus]struct{}{}, held: map[process.ID]int{}}
}

// recall returns the answer that covers s, and counts its pause from now.
func (c *consents) recall(s scope, now time.Time) (err error, ok bool) {
	if !s.lasts() {
		return nil, false
	}
	program := programOf(s.client)
	c.mu.Lock()
	defer c.mu.Unlock()
	classes := []class{s.class}
	if s.class == classRead {
		classes = append(classes, classChange, classDelete, classConnect)
	}
	for _, each := range classes {
		k := s
		k.class = each
		v, known := c.verdicts[k]
		if !known || !v.holds(now) || !v.runs(program) || (v.err != nil && each != s.class) {
			continue
		}
		v.used = now
		c.verdicts[k] = v
		return v.err, true
	}
	return nil, false
}

func (c *consents) remember(s scope, err error, now time.Time) {
	if !s.lasts() {
		return
	}
	program := programOf(s.client)
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, v := range c.verdicts {
		if !v.holds(now) {
			delete(c.verdicts, k)
		}
	}
	c.verdicts[s] = verdict{err, now, now, program}
}

// forget drops all answers, with a lock.
func (c *consents) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.verdicts)
}

// hold counts a request of the client that waits, until release is called; not
// ok where too many do.
func (c *consents) hold(client process.ID) (release func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[client] >= maxHeld || c.heldAll >= maxHeldAll {
		return nil, false
	}
	c.held[client]++
	c.heldAll++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.heldAll--
		if c.held[client]--; c.held[client] == 0 {
			delete(c.held, client)
		}
	}, true
}

// waits tells whether a request of the client does.
func (c *consents) waits(client process.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[client] > 0
}

// open shows a question in the agent's status until the returned function is called.
func (c *consents) open(s ConsentStatus) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[&s] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, &s)
	}
}

func (c *consents) status() []ConsentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]ConsentStatus, 0, len(c.pending))
	for s := range c.pending {
		all = append(all, *s)
	}
	return all
}

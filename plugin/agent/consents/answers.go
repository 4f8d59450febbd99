// Package consents remembers what people have answered to requests, for as long as an
// answer is in force, and bounds how many requests wait for one. It asks nobody.
package consents

import (
	"fmt"
	"maps"
	"os"
	"runtime"
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

// Class is a kind of request. An answer covers its own kind, and looking.
type Class string

// The classes.
const (
	Read    Class = "read"
	Change  Class = "change"
	Delete  Class = "delete"
	Connect Class = "connect"
)

// ClassOf is the class of a request.
func ClassOf(r consent.Request) Class {
	switch {
	case r.Connecting:
		return Connect
	case r.Verb == "delete" || r.Verb == "deletecollection":
		return Delete
	case r.Writes() && r.Verb != "get" && r.Verb != "list" && r.Verb != "watch":
		return Change
	}
	return Read
}

// Reach says what a yes to r covers, for the question.
func Reach(r consent.Request) string {
	kind := map[Class]string{
		Read: "reading", Change: "changes", Delete: "deletions", Connect: "connections",
	}[ClassOf(r)]
	more := ""
	if ClassOf(r) != Read {
		more = " and reading"
	}
	return fmt.Sprintf("covers all its further %s%s, until it pauses for %d s, at most %d min",
		kind, more, int(grantPause.Seconds()), int(grantLife.Minutes()))
}

// Scope is what an answer is for.
type Scope struct {
	Enrollment string
	Client     process.ID // the program that sends the request
	Conn       uint64     // the connection, where the system does not tell whose it is; else 0
	As         string     // the user that an impersonating request is made for
	Class      Class
}

// lasts tells whether an answer can be in force for more than a request: its
// process runs, or it is for one connection alone.
func (s Scope) lasts() bool {
	return s.Conn != 0 || s.Client.Known() && s.Client.Alive()
}

// answer is an answer in force.
type answer struct {
	err         error // nil is a yes
	given, used time.Time
	program     os.FileInfo // the program that the process ran; nil where the system does not tell
}

// ProgramOf is the file of the program that a process runs: another one may take
// its place (execve(2)), but not on Windows. It is nil where the system does not tell.
func ProgramOf(p process.ID) os.FileInfo {
	if runtime.GOOS == "windows" {
		return nil
	}
	file, err := os.Stat(fmt.Sprintf("/proc/%d/exe", p.PID))
	if err != nil {
		return nil
	}
	return file
}

// SameProgram reports whether two files of [ProgramOf] are the same.
func SameProgram(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b)
}

func (v answer) holds(now time.Time) bool {
	if v.err != nil {
		return now.Sub(v.used) < refusalPause
	}
	return now.Sub(v.used) < grantPause && now.Sub(v.given) < grantLife
}

// How many requests may wait for an answer, of one client and in all: each holds
// a stream and memory.
const (
	MaxHeld    = 256
	MaxHeldAll = 1024
)

// Answers are the answers in force, and the requests that wait for one.
type Answers struct {
	mu      sync.Mutex
	given   map[Scope]answer
	held    map[process.ID]int
	heldAll int
}

// New returns Answers with none in force.
func New() *Answers {
	return &Answers{given: map[Scope]answer{}, held: map[process.ID]int{}}
}

// Recall returns the answer that covers s, and counts its pause from now; err nil is
// a yes.
func (c *Answers) Recall(s Scope, now time.Time) (err error, ok bool) {
	if !s.lasts() {
		return nil, false
	}
	program := ProgramOf(s.Client)
	c.mu.Lock()
	defer c.mu.Unlock()
	classes := []Class{s.Class}
	if s.Class == Read {
		classes = append(classes, Change, Delete, Connect)
	}
	for _, each := range classes {
		k := s
		k.Class = each
		v, known := c.given[k]
		if !known || !v.holds(now) || !SameProgram(v.program, program) || (v.err != nil && each != s.Class) {
			continue
		}
		v.used = now
		c.given[k] = v
		return v.err, true
	}
	return nil, false
}

// Remember puts an answer in force for s, whose client ran program when it was asked about; err nil is a yes.
func (c *Answers) Remember(s Scope, program os.FileInfo, err error, now time.Time) {
	if !s.lasts() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, v := range c.given {
		if !v.holds(now) {
			delete(c.given, k)
		}
	}
	c.given[s] = answer{err, now, now, program}
}

// Forget drops all answers, with a lock.
func (c *Answers) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.given)
}

// ForgetOf drops the answers about requests to one enrollment.
func (c *Answers) ForgetOf(enrollment string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.given, func(s Scope, _ answer) bool { return s.Enrollment == enrollment })
}

// Hold counts a request of the client that waits, until release is called; not
// ok where too many do.
func (c *Answers) Hold(client process.ID) (release func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[client] >= MaxHeld || c.heldAll >= MaxHeldAll {
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

// Waits tells whether a request of the client does.
func (c *Answers) Waits(client process.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[client] > 0
}

//go:build unix

package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/process/child"
)

// How often one token's worker may die before it is left alone for a while.
const (
	maxDeaths   = 3
	deathWindow = time.Minute
)

// workers keeps each token in a process of its own, `EXE agent worker`: a
// library that crashes or hangs, and the PIN, live there.
type workers struct {
	o   Options
	env []string // nil is ours

	mu     sync.Mutex
	live   map[*workerProcess]hsm.URI
	deaths map[string][]time.Time // by token
	closed bool
	onEnd  func(End) // function that is told of the end; may be nil
	// settling are tokens that are to be locked after their workers were ended.
	settling sync.WaitGroup
}

// settle locks a card whose worker was ended, by another worker, as soon as the
// reader answers: the PIN must not stay verified there. Other tokens end a login with
// the process that made it.
func (ws *workers) settle(u hsm.URI) {
	if !u.Kind().LoginStays {
		return
	}
	ws.settling.Go(func() {
		_ = Settle(context.Background(), ws.Open, u) // the caller was told that the worker had to be ended
	})
}

// New returns tokens that worker processes hold. Only systems that cannot do that use
// the drivers, see [InProcess].
func New(o Options, _ hsm.Drivers) Tokens { return newWorkers(o) }

// errDismissed is [Options.Dismissed] where a caller has no other.
var errDismissed = errors.New("the token's worker was told to end")

func newWorkers(o Options) *workers {
	o.Dismissed = cmp.Or(o.Dismissed, errDismissed)
	return &workers{o: o, live: map[*workerProcess]hsm.URI{}, deaths: map[string][]time.Time{}}
}

// Open implements [Tokens].
func (ws *workers) Open(ctx context.Context, u hsm.URI) (Token, error) {
	if err := ws.admit(u, time.Now()); err != nil {
		return nil, err
	}
	p, err := ws.start(u)
	if err != nil {
		return nil, fmt.Errorf("start the token's worker: %w", err)
	}
	t, err := ws.hold(ctx, p, u)
	if err != nil {
		return nil, errors.Join(err, p.end())
	}
	return t, nil
}

// admit refuses a token whose worker has died again and again.
func (ws *workers) admit(u hsm.URI, now time.Time) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return context.Canceled
	}
	recent := slices.DeleteFunc(ws.deaths[u.String()], func(t time.Time) bool { return now.Sub(t) >= deathWindow })
	ws.deaths[u.String()] = recent
	if len(recent) < maxDeaths {
		return nil
	}
	return hint.Withf(
		fmt.Errorf("%w: the %s ended its process %d times within a minute", hsm.ErrModule, libraryOf(u), len(recent)),
		"wait %s; if it goes on, update the library or reach the token by another one",
		(deathWindow - now.Sub(recent[0])).Round(time.Second))
}

func (ws *workers) note(u hsm.URI) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.deaths[u.String()] = append(ws.deaths[u.String()], time.Now())
}

// Removed implements [Tokens].
func (ws *workers) Removed(ctx context.Context, t Token) error {
	held, ok := t.(*heldToken)
	if !ok {
		return errors.New("not a worker's token")
	}
	_, err := held.do(ctx, "token-removed", arguments{}, nil)
	return err
}

// Workers implements [Tokens].
func (ws *workers) Workers() []Status {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	all := make([]Status, 0, len(ws.live))
	for p, u := range ws.live {
		pid := p.cmd.Process.Pid
		all = append(all, Status{PID: pid, Token: u, Memory: child.Memory(pid)})
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Token.String(), b.Token.String()) })
	return all
}

// OnEnd implements [Tokens].
func (ws *workers) OnEnd(f func(End)) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.onEnd = f
}

// tell tells of an end.
func (ws *workers) tell(e End) {
	ws.mu.Lock()
	f := ws.onEnd
	ws.mu.Unlock()
	if f != nil {
		f(e)
	}
}

// Close implements [Tokens].
func (ws *workers) Close() error {
	ws.settling.Wait()
	ws.mu.Lock()
	ws.closed = true
	var all []*workerProcess
	for p := range ws.live {
		all = append(all, p)
	}
	ws.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() { errs[i] = p.end() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (ws *workers) isClosed() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.closed
}

// leave ends all processes and starts no more.
func (ws *workers) leave() {
	ws.mu.Lock()
	ws.closed = true
	all := slices.Collect(maps.Keys(ws.live))
	ws.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(p.leave)
	}
	wg.Wait()
}

// workerProcess is a running worker.
type workerProcess struct {
	cmd     *exec.Cmd
	control *net.UnixConn
	words   *lastWords
	exited  chan struct{}
	asked   chan struct{} // closed when it is our will that it ends
	once    sync.Once
	forced  atomic.Bool // killed, without having been asked to end
	left    atomic.Bool // a cancelled call may still run
}

func (ws *workers) start(u hsm.URI) (*workerProcess, error) {
	p := &workerProcess{words: &lastWords{}, exited: make(chan struct{}), asked: make(chan struct{})}
	p.cmd = exec.Command(ws.o.Exe, "agent", "worker")
	if runtime.GOOS == "linux" {
		p.cmd.Path = "/proc/self/exe" // the running program, also after the file was replaced
	}
	p.cmd.Dir = string(filepath.Separator)
	p.cmd.Env = append(slices.Clone(ws.env), "GOTRACEBACK=none") // a crash is told in one line
	if ws.env == nil {
		p.cmd.Env = append(os.Environ(), p.cmd.Env...)
	}
	p.cmd.Stderr = p.words
	p.cmd.WaitDelay = time.Second // child processes may keep the streams open
	p.cmd.SysProcAttr = child.Apart()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return nil, context.Canceled
	}
	var err error
	if p.control, err = child.Start(p.cmd); err != nil {
		return nil, err
	}
	ws.live[p] = u
	go func() {
		_ = p.cmd.Wait() // ProcessState tells how the worker ended
		ws.mu.Lock()
		delete(ws.live, p) // before anybody hears of its end, and looks
		ws.mu.Unlock()
		close(p.exited)
	}()
	return p, nil
}

func (p *workerProcess) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// end has the worker lock its token and end, by force if need be.
func (p *workerProcess) end() error {
	var err error
	p.once.Do(func() { close(p.asked); err = p.control.Close() })
	select {
	case <-p.exited:
	case <-time.After(letGo + time.Second):
		p.kill()
	}
	return err
}

// leaveTimeout is how long a process without a token of the agent's may take to end in order.
const leaveTimeout = 300 * time.Millisecond

// leave ends a process in which nothing is worth waiting for but the libraries' own end.
func (p *workerProcess) leave() {
	p.once.Do(func() { close(p.asked); _ = p.control.Close() })
	limit := leaveTimeout
	if p.left.Load() {
		limit = 0
	}
	select {
	case <-p.exited:
	case <-time.After(limit):
		p.kill()
	}
}

// dismissed tells that it was told to end.
func (p *workerProcess) dismissed() bool {
	select {
	case <-p.asked:
		return true
	default:
		return false
	}
}

func (p *workerProcess) kill() {
	p.forced.Store(true)
	_ = p.cmd.Process.Kill() // the process may have ended
	<-p.exited
}

// lastWords keeps the beginning of what a worker says: Go's runtime names the
// signal in its first line.
type lastWords struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (w *lastWords) Write(b []byte) (int, error) {
	const most = 4 << 10
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := most - w.b.Len(); room > 0 {
		w.b.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

// crash is the line that names a signal, if there is one.
func (w *lastWords) crash() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.b.String()) {
		for _, mark := range []string{"SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"} {
			if strings.HasPrefix(line, mark) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

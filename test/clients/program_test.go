//go:build linux

package clients

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// program is a client that runs on while things happen.
type program interface {
	// do has the client do what a verb of the matrix says, and returns what came of
	// it. The error is in the client's own words.
	do(verb, arg string) (string, error)
	// saw tells whether a watch has shown the object.
	saw(name string) bool
	// end ends the client and all that it has started.
	end()
}

// events are the names that watches have shown.
type events struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (e *events) add(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil {
		e.seen = map[string]bool{}
	}
	e.seen[name] = true
}

func (e *events) saw(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[name]
}

// talker is one process that does what it is told line by line: see testdata/matrix.
type talker struct {
	events
	cmd     *exec.Cmd
	stdin   io.Closer
	tell    io.Writer
	answers chan string
	stderr  tail
}

// tail is the end of what a program writes.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-2000):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

func newTalker(p *lab.Person, args ...string) (program, error) {
	t := &talker{cmd: exec.Command(args[0], args[1:]...), answers: make(chan string)}
	t.cmd.Dir = p.Dir
	t.cmd.Env = append(p.Env(), "OTHER="+other, "CA="+caFile(p))
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the program gets no terminal
	t.cmd.Stderr = &t.stderr
	in, err := t.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.stdin, t.tell = in, in
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(t.answers)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			switch word, rest, _ := strings.Cut(lines.Text(), " "); word {
			case "event":
				t.add(rest)
			case "ended": // the next request tells its words
			default:
				t.answers <- lines.Text()
			}
		}
	}()
	return t, nil
}

func (t *talker) do(verb, arg string) (string, error) {
	if _, err := fmt.Fprintln(t.tell, strings.TrimSpace(verb+" "+arg)); err != nil {
		return "", fmt.Errorf("it has ended: %w: %s", err, &t.stderr)
	}
	line, ok := <-t.answers
	if !ok {
		return "", fmt.Errorf("it has ended: %s", &t.stderr)
	}
	word, rest, _ := strings.Cut(line, " ")
	if word != "ok" {
		return "", errors.New(rest)
	}
	return rest, nil
}

func (t *talker) end() {
	_ = t.stdin.Close() // the program may have ended
	_ = syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL)
	for range t.answers { // the output ends with the program
	}
	_ = t.cmd.Wait() // the signal is its end
}

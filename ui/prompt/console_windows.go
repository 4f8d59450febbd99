package prompt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/term"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

// consoleHasANSI: older consoles show escape sequences as text; the prompt then stays on the
// screen.
const consoleHasANSI = false

type console struct{ in, out *os.File }

func openConsole() (*console, error) {
	in, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", hsm.ErrNoTerminal, err)
	}
	out, err := os.OpenFile("CONOUT$", os.O_RDWR, 0)
	if err != nil {
		_ = in.Close()
		return nil, fmt.Errorf("%w: %w", hsm.ErrNoTerminal, err)
	}
	var mode uint32
	if err := windows.GetConsoleMode(windows.Handle(in.Fd()), &mode); err != nil || mode&windows.ENABLE_LINE_INPUT == 0 {
		_ = in.Close()
		_ = out.Close()
		return nil, fmt.Errorf("%w: another program holds the console", hsm.ErrNoTerminal)
	}
	return &console{in: in, out: out}, nil
}

func (c *console) close() {
	_ = c.in.Close()
	_ = c.out.Close()
}

// raw: where the console can be opened nothing is written to another file.
func raw(*os.File) bool { return false }

// leads: a console has no groups of processes that the shell waits for.
func leads() bool { return true }

func (c *console) Write(p []byte) (int, error) { return c.out.Write(p) }

func (c *console) room() question.Room {
	w, h, err := term.GetSize(int(c.out.Fd()))
	if err != nil {
		return question.Room{}
	}
	return question.Room{Columns: w, Rows: h}
}

type readOptions struct {
	echo        bool
	flush       bool
	timeout     time.Duration
	draw, erase func()
	jobs        *jobs
	more        func([]byte) bool // see [hsm.PINPrompt]; may be nil
}

// jobs is empty: there is no job control.
type jobs struct{}

// readLine shows the prompt and reads a line into buf, without its end. If it ends early, the read
// continues in the background until Enter is pressed; the text is dropped.
func (c *console) readLine(ctx context.Context, o readOptions, buf []byte) (int, error) {
	if o.flush {
		if err := windows.FlushConsoleInputBuffer(windows.Handle(c.in.Fd())); err != nil {
			return 0, fmt.Errorf("%w: %w", hsm.ErrNoTerminal, err)
		}
	}
	state, err := term.GetState(int(c.in.Fd()))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", hsm.ErrNoTerminal, err)
	}
	defer func() { _ = term.Restore(int(c.in.Fd()), state) }()
	o.draw()
	type result struct {
		line []byte
		err  error
	}
	lines := make(chan result, 1)
	go func() {
		var r result
		if o.echo {
			r.line, r.err = readEchoed(c.in)
		} else {
			r.line, r.err = term.ReadPassword(int(c.in.Fd()))
			for last := r.line; r.err == nil && o.more != nil && len(last) > 0 && o.more(r.line); {
				if last, r.err = term.ReadPassword(int(c.in.Fd())); r.err == nil {
					r.line = append(append(r.line, '\n'), last...)
				}
			}
		}
		lines <- r
	}()
	timer := time.NewTimer(o.timeout)
	defer timer.Stop()
	select {
	case r := <-lines:
		defer clear(r.line)
		if errors.Is(r.err, io.EOF) {
			return 0, hsm.ErrCancelled
		}
		if r.err != nil {
			return 0, fmt.Errorf("%w: %w", hsm.ErrNoTerminal, r.err)
		}
		if len(r.line) > len(buf) {
			return 0, fmt.Errorf("%w: it is longer than %d bytes", hsm.ErrPINInvalid, len(buf))
		}
		return copy(buf, r.line), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-timer.C:
		return 0, ask.TimedOut(o.timeout)
	}
}

func readEchoed(r io.Reader) ([]byte, error) {
	var line []byte
	for b := make([]byte, 256); ; {
		n, err := r.Read(b)
		line = append(line, b[:n]...)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			return bytes.TrimRight(line[:i], "\r"), nil
		}
		if err != nil {
			return line, err
		}
	}
}

func sessionName() string { return strconv.Itoa(os.Getppid()) }

func sessionOver(string) bool { return false }

// continued returns a channel that never tells: there is no job control.
func continued() (resumed <-chan os.Signal, stop func()) { return nil, func() {} }

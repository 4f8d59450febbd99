//go:build unix

package prompt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

const consoleHasANSI = true

var parent = os.Getppid()

// console is the controlling terminal, opened for one prompt. It is a descriptor, not an os.File:
// Go's poller does not serve terminals on every system.
type console struct {
	fd int
	// hidden: echo was on and has been turned off here.
	hidden bool
	// owed: the prompt was shown again after a ctrl-z, and the SIGCONT for it may still arrive.
	owed bool
	// look is how often to check whether a slow shell takes the terminal after a ctrl-z; 0 is
	// never.
	look time.Duration
}

// openConsole returns [hsm.ErrNoTerminal] if this process may not use the terminal.
func openConsole() (*console, error) {
	// What select(2) has seen another program may have read meanwhile.
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: /dev/tty: %w", hsm.ErrNoTerminal, err)
	}
	c := &console{fd: fd}
	if err := c.usable(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// usable reports whether a line may be read: only in the foreground group, and not while a
// full-screen program has the terminal in raw mode.
func (c *console) usable() error {
	if !c.foreground() {
		return fmt.Errorf("%w: this process is in the background", hsm.ErrNoTerminal)
	}
	modes, err := unix.IoctlGetTermios(c.fd, ioctlGet)
	if err != nil {
		return fmt.Errorf("%w: reading its modes: %w", hsm.ErrNoTerminal, err)
	}
	if modes.Lflag&unix.ICANON == 0 {
		return fmt.Errorf("%w: another program (a pager, a full-screen program) holds it", hsm.ErrNoTerminal)
	}
	return nil
}

// raw reports whether a full-screen program holds the terminal f.
func raw(f *os.File) bool {
	modes, err := unix.IoctlGetTermios(int(f.Fd()), ioctlGet)
	return err == nil && modes.Lflag&unix.ICANON == 0
}

func (c *console) foreground() bool {
	group, err := unix.IoctlGetInt(c.fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// goneEvery is how often to check that the terminal is still there. A pseudo-terminal looks alive
// after its session has ended, and nohup ignores the signals that tell.
const goneEvery = 500 * time.Millisecond

// gone is an error if the terminal was closed, or has lost its session.
func (c *console) gone() error {
	if _, err := unix.IoctlGetInt(c.fd, unix.TIOCGPGRP); err != nil {
		return fmt.Errorf("%w: it is gone: %w", hsm.ErrNoTerminal, err)
	}
	return nil
}

// leads reports whether this process leads its group: then the shell leaves the terminal alone
// until it has cleaned up. A plugin does not lead: kubectl does, and stops first.
func leads() bool { return unix.Getpid() == unix.Getpgrp() }

func (c *console) close() { _ = unix.Close(c.fd) }

func (c *console) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n, err := unix.Write(c.fd, p[done:])
		if errors.Is(err, unix.EAGAIN) { // ctrl-s
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}, -1)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return done, err
		}
		done += max(n, 0)
	}
	return len(p), nil
}

func (c *console) room() question.Room {
	size, err := unix.IoctlGetWinsize(c.fd, unix.TIOCGWINSZ)
	if err != nil {
		return question.Room{}
	}
	return question.Room{Columns: int(size.Col), Rows: int(size.Row)}
}

// readOptions say how to read a line. draw and erase show and remove the prompt, also around a
// ctrl-z.
type readOptions struct {
	echo        bool
	flush       bool
	timeout     time.Duration
	draw, erase func()
	jobs        *jobs
	more        func([]byte) bool // see [hsm.PINPrompt]; may be nil
}

// readLine shows the prompt and reads a line into buf, without its end, and the
// further ones that o.more wants.
// Errors: [hsm.ErrCancelled] for ctrl-c, ctrl-\, ctrl-d and a signal to end,
// [hsm.ErrNoTerminal] if the terminal is taken away, an error that wraps
// [context.DeadlineExceeded] after the timeout, or ctx's. Echo is restored on
// every way out, a panic included.
func (c *console) readLine(ctx context.Context, o readOptions, buf []byte) (n int, err error) {
	defer o.jobs.leave()()
	w, err := newWaker(ctx, o.timeout)
	if err != nil {
		return 0, err
	}
	defer w.close()
	// Restoring the modes must not stop this process when the shell has taken
	// the terminal back already, as it does when kubectl dies first.
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	defer c.restore()
	if err := c.enter(o); err != nil {
		return 0, err
	}
	o.draw()
	for {
		ev, err := w.wait(c.fd, cmp.Or(c.look, goneEvery))
		if err != nil {
			return n, fmt.Errorf("%w: %w", hsm.ErrNoTerminal, err)
		}
		if err := c.gone(); err != nil && (ev == eventInput || ev == 0) {
			return n, err
		}
		switch {
		case ev == 0 && (c.look == 0 || c.foreground()): // still our terminal
		case ev == eventContinue && c.owed && c.foreground(): // the prompt is there, and perhaps an answer begun
			c.owed = false
			err = c.enter(readOptions{echo: o.echo})
		case ev == 0, ev == eventStop, ev == eventContinue,
			ev == eventInput && !c.foreground(): // the shell took it; that ctrl-z was typed may be heard of later
			n, err = 0, c.suspend(ctx, w, o, ev, buf)
		case ev == eventInput:
			var complete bool
			before := n
			n, complete, err = c.read(buf, n)
			switch further := n > before && o.more != nil && n < len(buf) && o.more(buf[:n]); {
			case complete && further:
				buf[n] = '\n'
				n++
			case complete:
				return n, nil
			}
		default:
			err = endedBy(ctx, ev, o)
		}
		if err != nil {
			return n, err
		}
	}
}

func endedBy(ctx context.Context, ev event, o readOptions) error {
	switch ev {
	case eventTimeout:
		return ask.TimedOut(o.timeout)
	case eventContext:
		return context.Cause(ctx)
	case eventInterrupt:
		return hsm.ErrCancelled
	case eventTerminate:
		return fmt.Errorf("%w by a signal", hsm.ErrCancelled)
	}
	return nil
}

// read takes what the terminal has: in canonical mode a line, without its end if ctrl-d was typed.
func (c *console) read(buf []byte, n int) (total int, complete bool, err error) {
	if err := c.usable(); err != nil {
		return n, false, err
	}
	k, err := unix.Read(c.fd, buf[n:])
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return n, false, nil
	case err != nil:
		return n, false, fmt.Errorf("%w: reading: %w", hsm.ErrNoTerminal, err)
	case k == 0 && n == 0:
		return 0, false, hsm.ErrCancelled
	case k == 0:
		return n, true, nil
	}
	n += k
	if buf[n-1] == '\n' {
		buf[n-1] = 0
		return n - 1, true, nil
	}
	if n == len(buf) {
		return n, false, fmt.Errorf("%w: it is longer than %d bytes", hsm.ErrPINInvalid, len(buf)-1)
	}
	return n, false, nil
}

// enter drops type-ahead and turns echo off in one step, so that nothing typed in between shows.
// Signals and line editing stay on.
func (c *console) enter(o readOptions) error {
	if err := c.usable(); err != nil {
		return err
	}
	modes, err := unix.IoctlGetTermios(c.fd, ioctlGet)
	if err != nil {
		return fmt.Errorf("%w: reading its modes: %w", hsm.ErrNoTerminal, err)
	}
	hide := !o.echo && modes.Lflag&unix.ECHO != 0
	if hide {
		modes.Lflag &^= unix.ECHO
	}
	how := uint(ioctlSet)
	if o.flush {
		how = ioctlSetFlush
	}
	if err := unix.IoctlSetTermios(c.fd, how, modes); err != nil {
		return fmt.Errorf("%w: setting its modes: %w", hsm.ErrNoTerminal, err)
	}
	c.hidden = c.hidden || hide
	return nil
}

// restore turns echo on again if it was turned off here, unless the shell has set up the terminal
// since.
func (c *console) restore() {
	if !c.hidden {
		return
	}
	c.hidden = false
	modes, err := unix.IoctlGetTermios(c.fd, ioctlGet)
	if err != nil || modes.Lflag&unix.ICANON == 0 || modes.Lflag&unix.ECHO != 0 {
		return
	}
	modes.Lflag |= unix.ECHO
	_ = unix.IoctlSetTermios(c.fd, ioctlSet, modes) // a terminal that went away needs none
}

// suspend stops for ctrl-z, and shows the prompt again once the process is continued in the
// foreground. The terminal has forgotten the begun line.
func (c *console) suspend(ctx context.Context, w *waker, o readOptions, why event, line []byte) error {
	clear(line)
	w.timer.Stop()
	away := c.wait
	if leads() {
		away = c.stop
	}
	gone, err := away(ctx, w, o, why)
	if err != nil {
		return err
	}
	c.look = stopGrace
	if gone {
		c.look = 0
	}
	if err := c.enter(readOptions{echo: o.echo, flush: o.flush && gone}); err != nil {
		return err
	}
	w.timer.Reset(o.timeout)
	_, _ = io.WriteString(c, "\r")
	o.draw()
	return nil
}

// stop stops this process, which leads its group, until it is in the foreground again: after bg it
// stops once more.
func (c *console) stop(_ context.Context, w *waker, o readOptions, why event) (gone bool, err error) {
	if why != eventContinue {
		c.restore()
		o.erase()
		w.stopSelf()
	}
	for !c.foreground() {
		if !w.stopSelf() && !c.foreground() {
			return false, c.usable()
		}
	}
	return true, nil
}

// wait waits until the shell has had the terminal and given it back, and tells
// whether it has: then what was typed meanwhile is not the answer. Another process
// leads the group and stops for the shell to see; this one must not, as it may hear of
// that when the group was continued already, and nobody would continue it a second
// time. Both signals can be heard of late and in any order, and there is one prompt for
// the two, or one more when an answer was begun in it. It ends with the parent, too.
func (c *console) wait(ctx context.Context, w *waker, o readOptions, why event) (gone bool, err error) {
	stopped, continued := false, false
	for until := time.Now().Add(stopGrace); ; {
		switch why {
		case eventStop:
			stopped = true
		case eventContinue:
			continued = true
		}
		pause := stopGrace / 20
		switch front := c.foreground(); {
		case !front && os.Getppid() != parent:
			return false, c.usable()
		case !front:
			if err := c.gone(); err != nil {
				return false, err
			}
			c.restore()
			gone, continued, pause = true, false, stopGrace
		case gone, stopped && continued, why == 0 && time.Now().After(until):
			c.owed = gone && !continued
			if !gone && !continued {
				o.erase() // nothing has written over it
			}
			return gone, nil
		}
		// Else the shell may be about to take it, or the other signal to come.
		why, err = w.within(pause)
		if err == nil && why != eventTimeout { // the time begins anew with the prompt
			err = endedBy(ctx, why, o)
		}
		if err != nil {
			return false, err
		}
	}
}

// sessionName names the terminal session, which all processes of one login shell or terminal window
// share.
func sessionName() string {
	id, err := unix.Getsid(0)
	if err != nil {
		id = os.Getpid()
	}
	return strconv.Itoa(id)
}

// sessionOver reports whether a session has lost its leader, and so its terminal (setsid(2),
// tty_ioctl(4)).
func sessionOver(name string) bool {
	id, err := strconv.Atoi(name)
	return err == nil && id > 0 && errors.Is(unix.Kill(id, 0), unix.ESRCH)
}

//go:build linux

package term

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Options say what to run.
type Options struct {
	// Path is the program, Args its arguments without its name.
	Path string
	Args []string
	Dir  string
	// Env is the whole environment. TERM and COLORTERM are added if missing.
	Env []string
	// Secrets are never to be shown, whether they are typed here or not: see
	// [Terminal.Shown].
	Secrets []string
	// Columns and Rows are the terminal's size; 80×24 if 0.
	Columns, Rows int
	// Stdin and Stdout replace the terminal there, as a pipe in a shell does; nil
	// leaves it. The program's controlling terminal stays the same.
	Stdin, Stdout *os.File
}

// Terminal is a program on a pseudo-terminal. Its methods may be called from
// several goroutines.
type Terminal struct {
	cmd       *exec.Cmd
	ptm, pts  *os.File
	responder sync.WaitGroup

	mu      sync.Mutex
	emu     *vt.Emulator
	raw     []byte
	seen    map[string]bool // secrets, and whether each was shown
	changed chan struct{}   // closed and replaced at every change

	exited chan struct{} // closed once the program ended and all output was read
	err    error         // why the process ended
	final  *unix.Termios // the terminal's state after the program's end
}

// Start runs the program as the leader of a session on a new terminal. The
// caller ends it with [Terminal.Close].
func Start(o Options) (*Terminal, error) {
	if o.Columns == 0 {
		o.Columns, o.Rows = 80, 24
	}
	ptm, pts, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	t := &Terminal{
		ptm: ptm, pts: pts, emu: vt.NewEmulator(o.Columns, o.Rows),
		seen: map[string]bool{}, changed: make(chan struct{}), exited: make(chan struct{}),
	}
	for _, secret := range o.Secrets {
		t.seen[secret] = false
	}
	t.emu.SetDefaultBackgroundColor(color.Black) // programs ask, to choose a theme
	t.emu.SetDefaultForegroundColor(color.White)
	t.cmd = command(o, pts)
	if err = pty.Setsize(ptm, &pty.Winsize{Cols: uint16(o.Columns), Rows: uint16(o.Rows)}); err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s on a terminal: %w", o.Path, err), ptm.Close(), pts.Close())
	}
	t.responder.Go(func() { _, _ = io.Copy(ptm, t.emu) }) // answers to what programs ask a terminal
	read := make(chan struct{})
	go t.read(read)
	go t.await(read)
	return t, nil
}

func command(o Options, tty *os.File) *exec.Cmd {
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Dir = o.Dir
	cmd.Env = append([]string{"TERM=xterm-256color", "COLORTERM=truecolor"}, o.Env...) // the last one counts
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	if o.Stdin != nil {
		cmd.Stdin = o.Stdin
	}
	if o.Stdout != nil {
		cmd.Stdout = o.Stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	return cmd
}

// read feeds the screen until nobody has the terminal open any more.
func (t *Terminal) read(done chan<- struct{}) {
	defer close(done)
	buf := make([]byte, 32<<10)
	for {
		n, err := t.ptm.Read(buf)
		if n > 0 {
			t.mu.Lock()
			t.raw = append(t.raw, buf[:n]...)
			_, _ = t.emu.Write(buf[:n]) // Write never fails
			t.watchSecrets()
			t.announce()
			t.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// await reaps the program, keeps the state that it left the terminal in, and
// waits for the rest of the output.
func (t *Terminal) await(read <-chan struct{}) {
	t.err = t.cmd.Wait()
	t.final, _ = unix.IoctlGetTermios(int(t.pts.Fd()), unix.TCGETS)
	_ = t.pts.Close()
	select {
	case <-read:
	case <-time.After(30 * time.Second):
		t.err = errors.Join(t.err, errors.New("the program ended, but something that it started holds the terminal"))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.exited)
	t.announce()
}

// announce wakes everybody that waits. t.mu is held.
func (t *Terminal) announce() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// watchSecrets looks for secrets in what was written and on the screen, where
// one that is echoed in pieces comes together. t.mu is held.
func (t *Terminal) watchSecrets() {
	if len(t.seen) == 0 {
		return
	}
	text := []byte(t.emu.String())
	for secret, seen := range t.seen {
		t.seen[secret] = seen || bytes.Contains(t.raw, []byte(secret)) || bytes.Contains(text, []byte(secret))
	}
}

// Frame returns the screen as it is.
func (t *Terminal) Frame() Frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	return frameOf(t.emu)
}

// Raw returns all that was written to the terminal.
func (t *Terminal) Raw() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.raw)
}

// Type sends text as if typed.
func (t *Terminal) Type(text string) error {
	if _, err := t.ptm.WriteString(text); err != nil {
		return fmt.Errorf("type on the terminal: %w", err)
	}
	return nil
}

// TypeSecret is [Terminal.Type] for what must never be shown: see [Terminal.Shown].
func (t *Terminal) TypeSecret(secret string) error {
	t.mu.Lock()
	if _, ok := t.seen[secret]; !ok {
		t.seen[secret] = false
	}
	t.mu.Unlock()
	return t.Type(secret)
}

// Shown returns the secrets that were written to the terminal at any time.
func (t *Terminal) Shown() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchSecrets()
	// Pieces that came, and were erased, at once are together without what is between.
	written := ansi.Strip(string(t.raw))
	var shown []string
	for secret, seen := range t.seen {
		if seen || strings.Contains(written, secret) {
			shown = append(shown, secret)
		}
	}
	return shown
}

// Wait returns when the screen is as it should be. The error tells whether ctx
// or the program ended first.
func (t *Terminal) Wait(ctx context.Context, is func(Frame) bool) error {
	for {
		t.mu.Lock()
		frame, changed := frameOf(t.emu), t.changed
		t.mu.Unlock()
		if is(frame) {
			return nil
		}
		select {
		case <-t.exited:
			if is(t.Frame()) {
				return nil
			}
			return fmt.Errorf("the program ended (%s) before", status(t.err))
		default:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Resize changes the terminal's size; the program gets SIGWINCH.
func (t *Terminal) Resize(columns, rows int) error {
	t.mu.Lock()
	t.emu.Resize(columns, rows)
	t.mu.Unlock()
	return pty.Setsize(t.ptm, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
}

// Cooked tells whether the terminal echoes and edits lines, as a shell leaves
// it. Once the program has ended, it tells how it left the terminal.
func (t *Terminal) Cooked() bool {
	select {
	case <-t.exited:
		return cooked(t.final)
	default:
	}
	now, err := unix.IoctlGetTermios(int(t.ptm.Fd()), unix.TCGETS)
	return err == nil && cooked(now)
}

func cooked(t *unix.Termios) bool {
	return t != nil && t.Lflag&unix.ECHO != 0 && t.Lflag&unix.ICANON != 0 && t.Lflag&unix.ISIG != 0
}

// PID is the program's process.
func (t *Terminal) PID() int { return t.cmd.Process.Pid }

// ExitCode waits for the program's end and returns its exit code, or 128 plus
// the signal that ended it.
func (t *Terminal) ExitCode(ctx context.Context) (int, error) {
	select {
	case <-t.exited:
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the program to end: %w", ctx.Err())
	}
	var exit *exec.ExitError
	switch {
	case t.err == nil:
		return 0, nil
	case !errors.As(t.err, &exit):
		return 0, t.err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// Close hangs the terminal up, ends the program's process group if it still
// runs, and returns when it is gone.
func (t *Terminal) Close() error {
	select {
	case <-t.exited:
	default:
		_ = syscall.Kill(-t.PID(), syscall.SIGKILL) // the process may end by itself meanwhile
		<-t.exited
	}
	err := errors.Join(t.emu.Close(), t.ptm.Close())
	t.responder.Wait()
	return err
}

func status(err error) string {
	if err == nil {
		return "exit code 0"
	}
	return err.Error()
}

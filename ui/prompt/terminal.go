package prompt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/filelock"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/present/question"
	"github.com/kubehsm/kubehsm/ui/text"
)

const (
	// maxSecret is the length in bytes up to which a secret is read.
	maxSecret = 4096
	// maxRounds bounds how often one prompt is repeated: two entries that
	// differ, an answer that is neither yes nor no.
	maxRounds = 3
)

// TerminalOptions tune a [Terminal]; the zero value is fine.
type TerminalOptions struct {
	// Timeout bounds each prompt; 0 is [ask.Limit]. A prompt that ends by
	// it gives an error that wraps [context.DeadlineExceeded].
	Timeout time.Duration
	// KeepTypeAhead leaves what was typed before the prompt appeared as its
	// answer. By default it is thrown away: it was meant for something else.
	KeepTypeAhead bool
	// Hint is the next step where nobody can be asked; "" names `kubehsm unlock`.
	Hint string
	// Notify shows words on the desktop, where the terminal cannot do so itself;
	// nil does without.
	Notify func(words string)
	// LockDir is an existing folder for the lock that keeps two processes from
	// asking on one terminal at the same time; "" does without.
	LockDir string
}

// Terminal asks on the controlling terminal with plain lines, erased after the
// answer. It is safe for concurrent use: one prompt is shown at a time.
type Terminal struct {
	opts  TerminalOptions
	turn  chan struct{} // holds one value: the right to prompt
	told  bool          // The person was told that no lock keeps prompts apart.
	lines lines
	jobs  jobs
}

// NewTerminal returns what asks on the controlling terminal. The terminal is
// opened for each prompt; if that fails, if this process is in the background
// or a full-screen program holds the terminal, [Terminal.Ask] returns [hsm.ErrNoTerminal].
func NewTerminal(o TerminalOptions) *Terminal {
	if o.Timeout <= 0 {
		o.Timeout = ask.Limit
	}
	if o.Hint == "" {
		o.Hint = unlockHint
	}
	t := &Terminal{opts: o, turn: make(chan struct{}, 1), lines: lines{notify: o.Notify}}
	t.turn <- struct{}{}
	return t
}

// Reach reports whether a person at the terminal could be asked now; errors wrap
// [hsm.ErrNoTerminal].
func (t *Terminal) Reach() error {
	c, err := openConsole()
	if err != nil {
		return hint.With(err, t.opts.Hint)
	}
	c.close()
	return nil
}

// Ask is an [ask.Func]. A new secret is asked for twice. An answer that is neither yes
// nor no is asked for again, at most three times in all; then it counts as a no. A line
// that awaits a touch appears after 200 ms, the bell rings and the desktop is told after
// 5 s, and the line is erased when it is done or ctx ends; without a usable terminal
// nothing is shown.
func (t *Terminal) Ask(ctx context.Context, q ask.Question) (a ask.Answer, err error) {
	switch {
	case q.PIN != nil:
		a.PIN, err = t.pin(ctx, *q.PIN, q.Shared)
	case q.Confirm != nil:
		a.Yes, err = t.confirm(ctx, *q.Confirm, q.Shared)
	case q.Touch != nil:
		above := func(room question.Room) []string { lines, _ := question.Touch(*q.Touch, room); return lines }
		_, words := question.Touch(*q.Touch, question.Room{})
		a.Done = t.lines.put(ctx, &line{words: words, above: above, delay: touchDelay, bell: touchBell, keep: q.Shared})
	default:
		err = t.Reach()
	}
	return a, err
}

func (t *Terminal) pin(ctx context.Context, p hsm.PINPrompt, shared func() bool) (*hsm.Secret, error) {
	var secret *hsm.Secret
	err := t.hold(ctx, func(c *console) error {
		above, label := question.PIN(p, c.room())
		if !p.New {
			var err error
			secret, err = t.secret(ctx, c, block{above: above, label: label, keep: shared}, p.More)
			return err
		}
		var unfit error
		for range maxRounds {
			var err error
			secret, err = t.twice(ctx, c, block{above: above, label: label, keep: shared}, p)
			if unfit = err; !errors.Is(err, hsm.ErrPINInvalid) {
				return err
			}
			above = []string{above[0], unfitWords(err)}
		}
		return unfit
	})
	if err != nil {
		return nil, err
	}
	return secret, nil
}

func (t *Terminal) secret(ctx context.Context, c *console, b block, more func([]byte) bool) (*hsm.Secret, error) {
	buf := make([]byte, maxSecret)
	hsm.Guard(buf)
	n, err := t.ask(ctx, c, b, buf, readOptions{more: more})
	s := hsm.NewTyped(buf[:n])
	if err != nil {
		s.Zero()
		return nil, err
	}
	return s, nil
}

// twice reads a new secret two times. It refuses an unfit one, or two that differ
// ([hsm.ErrPINInvalid]).
func (t *Terminal) twice(ctx context.Context, c *console, b block, p hsm.PINPrompt) (*hsm.Secret, error) {
	first, err := t.secret(ctx, c, b, nil)
	if err != nil {
		return nil, err
	}
	if err := hsm.CheckPIN(p.Kind, first, p.Token.PIN); err != nil {
		first.Zero()
		return nil, err
	}
	b.label = question.Repeat + ": "
	second, err := t.secret(ctx, c, b, nil)
	if err != nil {
		first.Zero()
		return nil, err
	}
	defer second.Zero()
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		first.Zero()
		return nil, errDiffer
	}
	return first, nil
}

func unfitWords(err error) string {
	if errors.Is(err, errDiffer) {
		return question.Differ
	}
	return text.Clean(err.Error()) + "."
}

var errDiffer = fmt.Errorf("%w: the two entries differ", hsm.ErrPINInvalid)

func (t *Terminal) confirm(ctx context.Context, p hsm.ConfirmPrompt, shared func() bool) (yes bool, err error) {
	err = t.hold(ctx, func(c *console) error {
		above, label := question.Confirm(p, c.room())
		buf := make([]byte, maxSecret)
		for rounds := 0; rounds < maxRounds; rounds++ {
			n, err := t.ask(ctx, c, block{above: above, label: label, keep: shared}, buf, readOptions{echo: true})
			if err != nil {
				return err
			}
			answer := strings.TrimSpace(string(buf[:n]))
			if len(p.More) > 0 && strings.EqualFold(answer, question.Details) {
				if _, err := io.WriteString(c, text.CleanLines(strings.Join(p.More, "\n"))+"\n"); err != nil {
					return err
				}
				p.More, rounds = nil, -1 // the details stay on the screen
				above, label = question.Confirm(p, c.room())
				continue
			}
			if p.ByTyping() {
				if yes = p.Accepts(answer); yes || answer == "" || p.Typed == nil {
					return nil
				}
				above, label = question.Confirm(p, c.room())
				above = append(above, question.NoMatch)
				continue
			}
			switch strings.ToLower(answer) {
			case "y", "yes":
				yes = true
				return nil
			case "n", "no":
				return nil
			case "":
				yes = p.DefaultYes
				return nil
			}
		}
		return nil
	})
	return yes, err
}

// hold runs f with the terminal, alone in this process and, with a LockDir, in this terminal
// session. Touch lines are hidden meanwhile.
func (t *Terminal) hold(ctx context.Context, f func(*console) error) error {
	select {
	case <-t.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { t.turn <- struct{}{} }()
	unlock, locked := t.lock(ctx)
	if locked != nil && !errors.Is(locked, filelock.ErrNoLocks) {
		return locked
	}
	defer unlock()
	c, err := openConsole()
	if err != nil {
		return hint.With(err, t.opts.Hint)
	}
	defer c.close()
	t.lines.pause()
	defer t.lines.resume()
	if locked != nil && !t.told { // prompts are only kept in order by the lock
		t.told = true
		if _, err := fmt.Fprintf(c, "note: prompts of several programs may mix: %s\r\n",
			text.Clean(locked.Error())); err != nil {
			return err
		}
	}
	return f(c)
}

const lockRetry = 50 * time.Millisecond

// lock takes the terminal session's lock file. The caller calls unlock even after
// [filelock.ErrNoLocks].
func (t *Terminal) lock(ctx context.Context) (unlock func(), err error) {
	if t.opts.LockDir == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.opts.Timeout,
		fmt.Errorf("another kubehsm asks on this terminal: %w", context.DeadlineExceeded))
	defer cancel()
	removeOldLocks(t.opts.LockDir)
	l := filelock.New(filepath.Join(t.opts.LockDir, lockPrefix+sessionName()+lockSuffix))
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return func() { _ = l.Close() }, fmt.Errorf("locking the terminal: %w", err)
	}
	// The file stays: removing it would let two others lock two different files.
	return func() { _ = l.Unlock() }, nil
}

// A terminal session's lock file is named by the session.
const (
	lockPrefix = "prompt-"
	lockSuffix = ".lock"
)

func removeOldLocks(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, lockPrefix+"*"+lockSuffix)) // the pattern is well-formed
	for _, f := range files {
		session := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), lockPrefix), lockSuffix)
		if sessionOver(session) {
			_ = os.Remove(f) // another process may have done so
		}
	}
}

// ask shows a prompt, reads an answer into buf and erases the prompt.
func (t *Terminal) ask(ctx context.Context, c *console, b block, buf []byte, o readOptions) (int, error) {
	b.w, b.room, b.ansi = c, c.room, ansiTerminal()
	o.flush, o.timeout, o.jobs = !t.opts.KeepTypeAhead, t.opts.Timeout, &t.jobs
	o.draw, o.erase = b.draw, func() { b.erase("", false) }
	n, err := c.readLine(ctx, o, buf)
	switch {
	case err == nil && o.echo:
		b.erase(string(buf[:n]), true)
	case interrupted(err) && !leads(): // the shell may be back already, with its own lines
		_, _ = io.WriteString(c, "\n")
	default:
		b.erase("", false)
	}
	return n, err
}

func interrupted(err error) bool {
	return errors.Is(err, hsm.ErrCancelled) || errors.Is(err, context.Canceled) || errors.Is(err, ask.ErrGone)
}

func ansiTerminal() bool {
	term := os.Getenv("TERM")
	return consoleHasANSI && term != "" && term != "dumb"
}

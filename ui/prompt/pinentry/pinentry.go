// Package pinentry asks in a window, through one of the pinentry programs that GnuPG's
// authors began (pinentry-gnome3, pinentry-mac, …). It knows their protocol, Assuan, and no
// terminal.
package pinentry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/present/question"
	"github.com/kubehsm/kubehsm/ui/text"
)

const (
	// maxSecret is the length in bytes up to which a secret is read.
	maxSecret = 4096
	// maxRounds bounds how often a new secret is asked for whose two entries differ.
	maxRounds = 3
	// leastRows are those to which fields are laid out anew where they do not fit.
	leastRows = 6
)

// New asks in a window that program, a path or a name on PATH, shows for at most timeout.
// The program must come from the user's own configuration. It asks for a new secret twice.
// Where a person must type something for a yes, the program may hide what is typed, as it
// hides a PIN. A touch is not shown: the window would stay when the touch is done. Errors
// wrap [hsm.ErrNoTerminal] if the program cannot show its window.
func New(program string, timeout time.Duration) ask.Func {
	w := window{program, timeout}
	return func(ctx context.Context, q ask.Question) (a ask.Answer, err error) {
		switch {
		case q.PIN != nil:
			a.PIN, err = w.pin(ctx, *q.PIN)
		case q.Confirm != nil:
			a.Yes, err = w.confirm(ctx, *q.Confirm)
		case q.Touch != nil:
		default:
			err = hsm.ErrUnsupported
		}
		return a, err
	}
}

// window is shown by one process per prompt.
type window struct {
	program string
	timeout time.Duration
}

func (w window) pin(ctx context.Context, prompt hsm.PINPrompt) (*hsm.Secret, error) {
	above, label := question.PIN(prompt, question.WindowRoom)
	title := strings.TrimSuffix(label, ": ")
	description, problem := above[0], strings.Join(above[1:], "\n")
	if len(prompt.Purpose.Fields) > 0 { // the fields say what the PIN is for
		description, problem = described(func(room question.Room) ([]string, string) {
			above, _ := question.PIN(prompt, room)
			return above[:len(above)-1], above[len(above)-1]
		}), ""
	}
	s, err := w.secret(ctx, description, title, problem)
	for round := 1; err == nil && prompt.New; round++ {
		var again *hsm.Secret
		if again, err = w.secret(ctx, description, question.Repeat, ""); err != nil {
			break
		}
		same := bytes.Equal(s.Bytes(), again.Bytes())
		again.Zero()
		if same {
			return s, nil
		}
		s.Zero()
		if round == maxRounds {
			return nil, fmt.Errorf("%w: the two entries differ", hsm.ErrPINInvalid)
		}
		s, err = w.secret(ctx, description, title, question.Differ)
	}
	if err != nil {
		s.Zero()
		return nil, err
	}
	return s, nil
}

func (w window) secret(ctx context.Context, description, label, problem string) (s *hsm.Secret, err error) {
	err = w.run(ctx, func(a *assuan) error {
		if err := texts(a, description, label+":", problem); err != nil {
			return err
		}
		buf := make([]byte, 0, maxSecret)
		hsm.Guard(buf[:cap(buf)])
		buf, err := a.data("GETPIN", buf)
		s = hsm.NewTyped(buf)
		return err
	})
	if err != nil {
		s.Zero()
		return nil, err
	}
	return s, nil
}

// described fits the description into one line of the protocol: rows of fields are left out first,
// with a note, then the end of long texts. The last line always stays.
func described(laid func(question.Room) (above []string, last string)) string {
	for room := question.WindowRoom; ; room.Rows-- {
		lines, last := laid(room)
		if len(lines) == 0 {
			return last
		}
		above := strings.Join(lines, "\n")
		most := maxArgument("SETDESC") - len(assuanEscapes.Replace("\n"+last))
		if room.Rows == leastRows || len(assuanEscapes.Replace(above)) <= most {
			return cut(above, most) + "\n" + last
		}
	}
}

// texts sets the window's texts. Not every pinentry knows every command; only the description,
// which names the token, must be accepted.
func texts(a *assuan, description, label, problem string) error {
	for _, c := range []struct {
		command, argument string
		must              bool
	}{
		{"SETTITLE", "kubehsm", false},
		{"SETDESC", description, true},
		{"SETPROMPT", label, false},
		{"SETERROR", problem, false},
	} {
		if c.argument == "" {
			continue
		}
		err := a.call(c.command, c.argument)
		var refused *assuanError
		if err != nil && (c.must || !errors.As(err, &refused)) {
			return err
		}
	}
	return nil
}

func (w window) confirm(ctx context.Context, prompt hsm.ConfirmPrompt) (bool, error) {
	description := described(func(room question.Room) ([]string, string) {
		above, label := question.Confirm(prompt, room)
		return above, strings.TrimSuffix(strings.TrimSuffix(label, " [y/N] "), " [Y/n] ")
	})
	if prompt.ByTyping() {
		s, err := w.secret(ctx, description, "Confirm", "")
		if err != nil {
			return false, err
		}
		defer s.Zero()
		return prompt.Accepts(string(bytes.TrimSpace(s.Bytes()))), nil
	}
	yes := false
	err := w.run(ctx, func(a *assuan) error {
		if err := texts(a, description, "", ""); err != nil {
			return err
		}
		err := a.call("CONFIRM", "")
		var refused *assuanError
		if errors.As(err, &refused) && (refused.code == gpgNotConfirmed || refused.code == gpgCancelled) {
			return nil
		}
		yes = err == nil
		return err
	})
	return yes, err
}

func (w window) run(ctx context.Context, f func(*assuan) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, ask.TimedOut(w.timeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, w.program)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return hint.With(fmt.Errorf("%w: starting pinentry: %w", hsm.ErrNoTerminal, err),
			"check the pinentry program in the configuration file")
	}
	a := newAssuan(in, out)
	defer a.zero()
	err = a.greeting()
	if err == nil {
		if err = w.options(a); err == nil {
			err = f(a)
		}
	}
	_ = in.Close() // ends it; what it says after the answer does not matter
	cancelled := ctx.Err() != nil
	cause := context.Cause(ctx)
	cancel()
	_ = cmd.Wait()
	if err != nil && cancelled {
		return cause
	}
	return errorOf(err)
}

// options passes the terminal and display, which the program learns from nowhere else, and the
// timeout.
func (w window) options(a *assuan) error {
	options := []string{"grab"}
	if tty := os.Getenv("GPG_TTY"); tty != "" {
		options = append(options, "ttyname="+tty)
		if term := os.Getenv("TERM"); term != "" {
			options = append(options, "ttytype="+term)
		}
	}
	for _, variable := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(variable); v != "" {
			options = append(options, "lc-ctype="+v)
			break
		}
	}
	for _, o := range options {
		if err := optional(a.call("OPTION", text.Clean(o))); err != nil {
			return err
		}
	}
	return optional(a.call("SETTIMEOUT", fmt.Sprint(max(1, int(w.timeout.Seconds())))))
}

// optional ignores the program's own refusal.
func optional(err error) error {
	var refused *assuanError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

func errorOf(err error) error {
	var e *assuanError
	if !errors.As(err, &e) {
		return err
	}
	switch e.code {
	case gpgCancelled, gpgFullyCancel, gpgNotConfirmed:
		return hsm.ErrCancelled
	case gpgTimeout:
		return fmt.Errorf("%w: %w", e, context.DeadlineExceeded)
	}
	return fmt.Errorf("%w: %w", hsm.ErrNoTerminal, e)
}

package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
)

// ScreenID names a screen to start at.
type ScreenID = screen.ID

// The screens to start at.
const (
	ScreenHome   = screen.Home
	ScreenTokens = screen.Tokens
	ScreenEnroll = screen.Enroll
)

// Options say what to run and where.
type Options struct {
	// Env is the environment of the use cases. The program copies it, and asks its
	// questions on the screen.
	Env *env.Env
	// Start is the first screen; "" is [ScreenHome].
	Start ScreenID
	// Enroll pre-fills the enrollment wizard.
	Enroll enrolling.Options
	// ReadOnly refuses whatever would change something.
	ReadOnly bool
	// In and Out are the terminal; nil means the standard streams.
	In  io.Reader
	Out io.Writer
	// Environ is the environment that tells what the terminal can do; nil means the process's.
	Environ []string
	// Finishing is told while something goes on that must not be left half-way; may be nil.
	Finishing hsm.Finishing
}

// Outcome is what came of it.
type Outcome struct {
	// Result is the last enrollment finished, or nil.
	Result *enrolling.Result
	// Interrupted is true if the program was left by ctrl-c.
	Interrupted bool
}

// closeGrace bounds the wait for cancelled work at exit: a driver library that hangs must not keep
// the program.
const closeGrace = 5 * time.Second

// framesPerSecond bounds the delay of a key's effect. With bubbletea's default of 60 it is up to 17
// ms.
const framesPerSecond = 120

// Run shows the terminal UI until the person leaves or ctx ends. All work that
// it started is cancelled then. Signals are the caller's business: they should
// cancel ctx. Errors: [hsm.ErrNoTerminal] if there is no terminal to draw on,
// ctx's error, or a failure of the terminal.
func Run(ctx context.Context, o Options) (Outcome, error) {
	if o.In == nil {
		o.In = os.Stdin
	}
	if o.Out == nil {
		o.Out = os.Stdout
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if err := Usable(o.In, o.Out, o.Environ); err != nil {
		return Outcome{}, err
	}
	restore, err := keepStderr()
	if err != nil {
		return Outcome{}, fmt.Errorf("terminal: %w", err)
	}
	m := newModel(ctx, o)
	_, err = tea.NewProgram(m,
		tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ),
		tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond),
	).Run()
	m.close(closeGrace)
	if gerr := restore(err != nil && ctx.Err() == nil); gerr != nil {
		err = errors.Join(err, gerr)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return m.outcome, ctx.Err()
	default:
		return m.outcome, fmt.Errorf("terminal: %w", err)
	}
	return m.outcome, nil
}

// Usable reports whether a terminal UI can be shown: both streams are terminals
// the terminal can place the cursor, and KUBEHSM_ACCESSIBLE does not ask for
// plain lines. If not the error wraps
// [hsm.ErrNoTerminal] and says what to use instead; where plain lines can be
// shown it has a method Plain that tells true.
func Usable(in io.Reader, out io.Writer, env []string) error {
	no := func(why string) error {
		return hint.With(fmt.Errorf("%w: %s", hsm.ErrNoTerminal, why),
			"use the commands instead: `kubehsm token list`, `kubehsm enroll`")
	}
	for _, s := range []any{in, out} {
		if f, ok := s.(interface{ Fd() uintptr }); !ok || !term.IsTerminal(f.Fd()) {
			return no("the input or output is not a terminal")
		}
	}
	if v := lookup(env, "KUBEHSM_ACCESSIBLE"); v != "" && v != "0" {
		return plain{no("KUBEHSM_ACCESSIBLE asks for plain lines")}
	}
	if t := lookup(env, "TERM"); t == "" || t == "dumb" {
		return plain{no("TERM says that the terminal cannot place its cursor")}
	}
	return nil
}

type plain struct{ error }

func (p plain) Unwrap() error { return p.error }

// Plain tells those who ask by lines that they can.
func (plain) Plain() bool { return true }

func lookup(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

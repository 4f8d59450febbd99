package prompt

import (
	"cmp"
	"os"
	"runtime"
	"time"

	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/ui/prompt/pinentry"
)

// Options say how [Choose] lets a person be asked.
type Options struct {
	// PINFD is the descriptor that a PIN is read from, or negative for none.
	PINFD int
	// Pinentry is the pinentry program of the user's own configuration, as a
	// path or a name on PATH; "" is none. It serves where there is no terminal
	// but a graphical session, or always with PreferPinentry.
	Pinentry       string
	PreferPinentry bool
	// Timeout bounds each prompt; 0 is [ask.Limit].
	Timeout time.Duration
	// Hint is the next step where nobody can be asked; "" names `kubehsm unlock`.
	Hint string
	// Notify is as in [TerminalOptions].
	Notify func(words string)
	// RunDir is an existing private folder for the lock that serialises prompts
	// on one terminal, and for the cool-down; "" does without both.
	RunDir string
	// CoolDown keeps a PIN prompt that was cancelled from coming back within
	// this time, for programs that a client starts over and over; 0 is off.
	CoolDown time.Duration
	// Terminal is a number that tells this window from others, for CoolDown.
	Terminal uint64
}

// Choose combines who asks as the options say: a PIN from a descriptor
// first; then the terminal; then pinentry; [hsm.ErrNoTerminal] with a hint
// when none of them reaches a person. Call the returned function when done: it
// forgets a PIN that was read from a descriptor.
func Choose(o Options) (p ask.Func, done func()) {
	done = func() {}
	terminal := NewTerminal(TerminalOptions{Timeout: o.Timeout, Hint: o.Hint, Notify: o.Notify, LockDir: o.RunDir}).Ask
	switch window := pinentry.New(o.Pinentry, cmp.Or(o.Timeout, ask.Limit)); {
	case o.Pinentry == "":
		p = terminal
	case o.PreferPinentry:
		p = ask.First(window, terminal)
	case graphical():
		p = ask.First(terminal, window)
	default:
		p = terminal
	}
	if o.CoolDown > 0 && o.RunDir != "" {
		p = ask.CoolDown(o.RunDir, o.CoolDown, o.Terminal)(p)
	}
	if o.PINFD >= 0 {
		return FD(o.PINFD, p)
	}
	return p, done
}

func graphical() bool {
	return runtime.GOOS == "windows" || runtime.GOOS == "darwin" ||
		os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

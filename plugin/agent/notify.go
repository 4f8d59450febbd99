package agent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// notifier tells a person at a desktop what no terminal can: notify-send, of the
// freedesktop.org notifications, if it is there.
type notifier struct {
	program string // "" without a desktop
	mu      sync.Mutex
	last    time.Time
}

// Bounds of notifications.
const (
	notifyEvery   = 10 * time.Second
	notifyTimeout = 5 * time.Second
)

func newNotifier(getenv func(string) string) *notifier {
	n := &notifier{}
	for _, desktop := range []string{"DISPLAY", "WAYLAND_DISPLAY"} {
		if getenv(desktop) == "" {
			continue
		}
		if p, err := exec.LookPath("notify-send"); err == nil && filepath.IsAbs(p) {
			n.program = p
		}
	}
	return n
}

// say shows a sentence of ours, in which only an enrolment's name is foreign: a
// notification's text is markup. It does not wait for it, and a program that
// fails has nobody to tell.
func (n *notifier) say(sentence string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.program == "" || time.Since(n.last) < notifyEvery {
		return
	}
	n.last = time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, n.program, "--app-name=kubehsm", "--", "kubehsm", sentence)
		cmd.Dir = string(os.PathSeparator)
		_ = cmd.Run()
	}()
}

// nobody is there to be asked; a desktop may show that the token waits.
type nobody struct {
	notify     *notifier
	enrollment string
}

func (nobody) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) { return nil, hsm.ErrNoTerminal }

func (n nobody) Touch(context.Context, hsm.TouchPrompt) (done func()) {
	const soon = 200 * time.Millisecond // most tokens answer without a touch
	t := time.AfterFunc(soon, func() {
		n.notify.say("The token waits for your touch: the connection to " + n.enrollment + " is opened again.")
	})
	return func() { t.Stop() }
}

func (nobody) Confirm(context.Context, hsm.ConfirmPrompt) (bool, error) {
	return false, hsm.ErrNoTerminal
}

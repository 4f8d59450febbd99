// Package desktop tells a person at a desktop what no terminal can: by
// notify-send, of the freedesktop.org notifications, if it is there.
package desktop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Notifier shows notifications. It is safe for concurrent use.
type Notifier struct {
	program string // "" without a desktop
	mu      sync.Mutex
	last    time.Time
}

// Bounds of notifications.
const (
	every   = 10 * time.Second
	timeout = 5 * time.Second
)

// New returns the desktop of an environment, [os.Getenv]'s. Without one, or
// without notify-send, nothing is shown.
func New(getenv func(string) string) *Notifier {
	n := &Notifier{}
	for _, display := range []string{"DISPLAY", "WAYLAND_DISPLAY"} {
		if getenv(display) == "" {
			continue
		}
		if p, err := exec.LookPath("notify-send"); err == nil && filepath.IsAbs(p) {
			n.program = p
		}
	}
	return n
}

// markup is what a notification's text would be read as.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Say shows a sentence without control characters, unless another one was shown
// within ten seconds. It does not wait for it, and a program that fails has
// nobody to tell.
func (n *Notifier) Say(sentence string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.program == "" || time.Since(n.last) < every {
		return
	}
	n.last = time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, n.program, "--app-name=kubehsm", "--", "kubehsm", markup.Replace(sentence))
		cmd.Dir = string(os.PathSeparator)
		_ = cmd.Run()
	}()
}

//go:build unix

package prompt

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// jobs handles ctrl-z from the first prompt until the process ends: Go cannot restore SIGTSTP's
// default effect once it was caught. Without a prompt on the screen the process is stopped as
// usual.
type jobs struct {
	once   sync.Once
	prompt atomic.Bool
}

func (j *jobs) leave() (back func()) {
	j.prompt.Store(true)
	j.once.Do(func() {
		if signal.Ignored(unix.SIGTSTP) {
			return
		}
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, unix.SIGTSTP)
		go j.serve(ch)
	})
	return func() { j.prompt.Store(false) }
}

func (j *jobs) serve(ch <-chan os.Signal) {
	for range ch {
		if !j.prompt.Load() {
			stopSelf()
		}
	}
}

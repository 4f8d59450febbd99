//go:build unix

package prompt

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// jobs sees to ctrl-z from the first prompt on, for as long as the process
// runs: Go cannot give SIGTSTP its default effect back once it was caught. A
// prompt that is on the screen hears of it itself; without one the process is
// stopped as it would have been.
type jobs struct {
	once   sync.Once
	prompt atomic.Bool
}

// leave leaves ctrl-z to a prompt until the returned function is called.
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

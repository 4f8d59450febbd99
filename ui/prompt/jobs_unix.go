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
// prompt that is on the screen is told; without one the process is stopped as
// it would have been.
type jobs struct {
	once   sync.Once
	prompt atomic.Pointer[waker]
}

// watch hands ctrl-z to k until the returned function is called.
func (j *jobs) watch(k *waker) (stop func()) {
	j.prompt.Store(k)
	j.once.Do(func() {
		if signal.Ignored(unix.SIGTSTP) {
			return
		}
		ch := make(chan os.Signal, 1)
		signal.Notify(ch, unix.SIGTSTP)
		go j.serve(ch)
	})
	return func() { j.prompt.Store(nil) }
}

func (j *jobs) serve(ch <-chan os.Signal) {
	for s := range ch {
		k := j.prompt.Load()
		if k == nil {
			stopSelf()
			continue
		}
		select {
		case k.signals <- s:
		default: // it has more than it can handle
		}
	}
}

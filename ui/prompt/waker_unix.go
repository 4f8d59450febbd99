//go:build unix

package prompt

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// event is the reason why a wait for input ended.
type event byte

const (
	eventInput event = iota + 1
	eventContext
	eventTimeout
	eventInterrupt // SIGINT, SIGQUIT: ctrl-c, ctrl-\
	eventTerminate // SIGTERM, SIGHUP
	eventStop      // SIGTSTP: ctrl-z
	eventContinue  // SIGCONT
)

// stopGrace is how long a process may take to stop itself. In an orphaned group, where nothing can
// continue it, it does not stop at all.
const stopGrace = 200 * time.Millisecond

// waker waits for input, a signal, a timeout or the end of a context. While it lives the terminal's
// signals do not end the process.
type waker struct {
	r, w    *os.File // a pipe with a byte per event, since select(2) needs a descriptor
	events  chan event
	signals chan os.Signal
	timer   *time.Timer
	quit    chan struct{}
	done    chan struct{}
}

func newWaker(ctx context.Context, timeout time.Duration) (*waker, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	k := &waker{
		r: r, w: w,
		events:  make(chan event, 1),
		signals: make(chan os.Signal, 16),
		timer:   time.NewTimer(timeout),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	k.notify()
	go k.run(ctx)
	return k, nil
}

func (k *waker) notify() {
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGTSTP, unix.SIGCONT} {
		if !signal.Ignored(s) {
			signal.Notify(k.signals, s)
		}
	}
}

func (k *waker) close() {
	signal.Stop(k.signals)
	close(k.quit)
	<-k.done
	k.timer.Stop()
	_ = k.r.Close()
	_ = k.w.Close()
}

func (k *waker) run(ctx context.Context) {
	defer close(k.done)
	ended := ctx.Done()
	for {
		var ev event
		select {
		case <-k.quit:
			return
		case <-ended:
			ev, ended = eventContext, nil
		case <-k.timer.C:
			ev = eventTimeout
		case s := <-k.signals:
			ev = eventOf(s)
		}
		if _, err := k.w.Write([]byte{0}); err != nil {
			return
		}
		select {
		case k.events <- ev:
		case <-k.quit:
			return
		}
	}
}

func eventOf(s os.Signal) event {
	switch s {
	case unix.SIGTSTP:
		return eventStop
	case unix.SIGCONT:
		return eventContinue
	case unix.SIGTERM, unix.SIGHUP:
		return eventTerminate
	}
	return eventInterrupt
}

// wait returns the next event, 0 after limit; events come before input.
func (k *waker) wait(fd int, limit time.Duration) (event, error) {
	wake := int(k.r.Fd())
	if fd >= unix.FD_SETSIZE || wake >= unix.FD_SETSIZE {
		return 0, errors.New("too many open files")
	}
	for {
		var set unix.FdSet
		set.Set(fd)
		set.Set(wake)
		timeout := unix.NsecToTimeval(limit.Nanoseconds())
		n, err := unix.Select(max(fd, wake)+1, &set, nil, nil, &timeout)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, nil
		case set.IsSet(wake):
			return k.next()
		}
		return eventInput, nil
	}
}

// within returns the next event, 0 if there is none in time.
func (k *waker) within(d time.Duration) (event, error) {
	set := []unix.PollFd{{Fd: int32(k.r.Fd()), Events: unix.POLLIN}}
	switch ready, err := unix.Poll(set, int(d.Milliseconds())); {
	case errors.Is(err, unix.EINTR), err == nil && ready == 0:
		return 0, nil
	case err != nil:
		return 0, err
	}
	return k.next()
}

func (k *waker) next() (event, error) {
	var b [1]byte
	if _, err := k.r.Read(b[:]); err != nil {
		return 0, err
	}
	return <-k.events, nil
}

// stopSelf stops this process as ctrl-z does, and returns false if it was not stopped. Its own
// signals are not caught meanwhile.
func (k *waker) stopSelf() bool {
	signal.Stop(k.signals)
	defer k.notify()
	return stopSelf()
}

// stopSelf uses SIGTTIN, which nothing here catches: Go cannot restore SIGTSTP's default effect
// once it was caught (runtime.sigdisable).
func stopSelf() bool {
	resumed, stop := continued()
	defer stop()
	if err := unix.Kill(unix.Getpid(), unix.SIGTTIN); err != nil {
		return false
	}
	for range 2 { // the first may run out while the process is stopped
		select {
		case <-resumed:
			return true
		case <-time.After(stopGrace):
		}
	}
	return false
}

func continued() (resumed <-chan os.Signal, stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, unix.SIGCONT)
	return ch, func() { signal.Stop(ch) }
}

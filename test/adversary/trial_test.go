//go:build linux && cgo

package adversary

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// trial is one attack's run. It stands in for the test: an attack that works is not
// the end of the test where the program has a defect on purpose.
type trial struct {
	testing.TB // Embedded for its type: everything that matters is below.

	ctx     context.Context
	mu      sync.Mutex
	wrong   []string // events that must not have happened
	broken  []string // reasons why the attack was not made
	logs    []string
	cleanup []func()
}

// try runs f to its end, with what it wants to be done after it.
func try(t *testing.T, f func(*trial)) *trial {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	v := &trial{TB: t, ctx: ctx}
	run := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	run(func() { f(v) })
	cancel()
	for len(v.cleanup) > 0 {
		last := v.cleanup[len(v.cleanup)-1]
		v.cleanup = v.cleanup[:len(v.cleanup)-1]
		run(last)
	}
	return v
}

// Wrong says that the attack worked.
func (v *trial) Wrong(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// Must ends the trial where it cannot be made.
func (v *trial) Must(err error) {
	if err != nil {
		v.Fatal(err)
	}
}

// tell reports to the test, if the program is to be without fault.
func (v *trial) tell(t *testing.T) {
	t.Helper()
	for _, w := range v.wrong {
		t.Error("the attack worked:", w)
	}
	for _, b := range v.broken {
		t.Error("the attack could not be made:", b)
	}
	if t.Failed() {
		t.Log(strings.Join(v.logs, "\n"))
	}
}

func (v *trial) note(list *[]string, text string) {
	_, file, line, _ := runtime.Caller(2)
	v.mu.Lock()
	defer v.mu.Unlock()
	*list = append(*list, fmt.Sprintf("%s:%d: %s", file[strings.LastIndexByte(file, '/')+1:], line, text))
}

// The methods of [testing.TB] that attacks and their helpers use.

func (v *trial) Helper()                        {}
func (v *trial) Context() context.Context       { return v.ctx }
func (v *trial) Cleanup(f func())               { v.cleanup = append(v.cleanup, f) }
func (v *trial) Log(args ...any)                { v.note(&v.logs, fmt.Sprint(args...)) }
func (v *trial) Logf(format string, a ...any)   { v.note(&v.logs, fmt.Sprintf(format, a...)) }
func (v *trial) Error(args ...any)              { v.note(&v.broken, fmt.Sprint(args...)) }
func (v *trial) Errorf(format string, a ...any) { v.note(&v.broken, fmt.Sprintf(format, a...)) }

func (v *trial) Fatal(args ...any) {
	v.note(&v.broken, fmt.Sprint(args...))
	runtime.Goexit()
}

func (v *trial) Fatalf(format string, a ...any) {
	v.note(&v.broken, fmt.Sprintf(format, a...))
	runtime.Goexit()
}

// Failed is true for either: what was on the screen is of interest.
func (v *trial) Failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.wrong)+len(v.broken) > 0
}

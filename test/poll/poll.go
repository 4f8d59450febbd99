// Package poll waits in tests for what happens soon, by looking again and again:
// a test that sleeps for a fixed time instead is slow on a fast machine and fails
// on a slow one.
package poll

import (
	"runtime"
	"testing"
	"time"
)

// Patience is how long [Until] waits: no healthy system, however slow the
// machine, takes as long for what a test waits for.
const Patience = 2 * time.Minute

// Until looks until is says yes, and fails t after [Patience], with what it
// waited for and what all goroutines were doing.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !Within(Patience, is) {
		b := make([]byte, 1<<20)
		t.Fatalf("waited in vain until %s\n%s", what, b[:runtime.Stack(b, true)])
	}
}

// Within looks until is says yes and returns true, or false when it has not by
// the end of limit, for tests with more to say than [Until] does.
func Within(limit time.Duration, is func() bool) bool {
	pause := time.Millisecond
	for deadline := time.Now().Add(limit); !is(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

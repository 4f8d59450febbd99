//go:build unix

package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// TestWaitIsQuiet: that a library is waited for is shown after a while, and not while a
// person is asked, or is to touch the token.
func TestWaitIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := 0
		w := &wait{}
		w.begin(func() (done func()) { shown++; return func() { shown-- } })
		at := func(what string, want int) {
			t.Helper()
			time.Sleep(ShowAfter + time.Second)
			synctest.Wait()
			if shown != want {
				t.Errorf("%s: %d shown, want %d", what, shown, want)
			}
		}
		person := (&person{wait: w, pins: new(atomic.Int32)}).before(
			func(_ context.Context, q ask.Question) (ask.Answer, error) {
				if q.Touch == nil {
					at("asked", 0)
				}
				return ask.Answer{}, nil
			},
		)
		at("waiting", 1)
		_, err := person(t.Context(), ask.Question{Confirm: &hsm.ConfirmPrompt{}})
		check(t, err)
		at("answered", 1)
		a, err := person(t.Context(), ask.Question{Touch: &hsm.TouchPrompt{}})
		check(t, err)
		at("to be touched", 0)
		a.Down()
		at("touched", 1)
		w.end()
		at("over", 0)
	})
}

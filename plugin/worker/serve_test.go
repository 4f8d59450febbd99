//go:build unix

package worker

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// stuckToken does not answer, or takes its time.
type stuckToken struct {
	hsm.Token
	release chan struct{}
}

func (s stuckToken) Unlocked() bool {
	<-s.release
	return true
}

// TestAbandonedLibraryEndsItsWorker: whoever waited for it has left, say at
// ctrl-c, so nobody else notices that it hangs.
func TestAbandonedLibraryEndsItsWorker(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		hung  bool
	}{{time.Millisecond, true}, {time.Hour, false}} {
		token := stuckToken{release: make(chan struct{})}
		hung := make(chan struct{})
		w := &worker{host: NewHost(), limit: c.limit, hung: func() { close(hung) }, open: map[int]hsm.Token{0: token}}
		ours, theirs := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			w.serve(t.Context(), theirs)
		}()
		check(t, wire.WriteJSON(ours, &request{Header: link.Header{Op: "token-state"}}))
		check(t, ours.Close())
		if c.hung {
			<-hung
		}
		close(token.release)
		<-served
		select {
		case <-hung:
			if !c.hung {
				t.Error("one that ends counts as hung")
			}
		default:
		}
	}
}

// TestDeathsAreForgotten: a token whose worker died again and again is left alone for a
// while, and not for ever.
func TestDeathsAreForgotten(t *testing.T) {
	ws := newWorkers(Options{})
	u := hsm.URI{Scheme: hsm.SchemePKCS11, Token: "lab"}
	for range maxDeaths {
		check(t, ws.admit(u, time.Now()))
		ws.note(u)
	}
	if err := ws.admit(u, time.Now()); !errors.Is(err, hsm.ErrModule) {
		t.Errorf("a worker that died %d times: %v", maxDeaths, err)
	}
	check(t, ws.admit(u, time.Now().Add(deathWindow)))
}

// TestFinishingHasAnEnd: what must not be left half-way is waited for, but not for good.
func TestFinishingHasAnEnd(t *testing.T) {
	h := NewHost()
	done := h.Finishing()
	h.finished(time.Millisecond) // a library that hangs
	time.AfterFunc(time.Millisecond, done)
	h.finished(time.Hour)
	if h.finishing != 0 {
		t.Error("it was not waited for")
	}
}

//go:build linux && cgo

package card

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestLockOfWhatIsStopped: agent and worker, or the worker alone, are stopped while
// the card has the PIN verified and waits for a touch. A lock ends them, and the card
// forgets the PIN as soon as its reader answers.
func TestLockOfWhatIsStopped(t *testing.T) {
	p := newPerson(t)
	p.enrollTouched()
	for _, stopped := range []string{"agent", "worker"} {
		t.Run(stopped, func(t *testing.T) {
			p := p.in(t)
			p.ok(p.Kubehsm(t.Context(), "agent", "stop"))
			s := p.terminal("/bin/sh", "-c", "kubectl get namespaces; echo ended $?")
			s.Answer(pinPrompt, ownPIN)
			s.WaitFor(touchPrompt)
			<-p.wanted
			if !p.card.Verified() {
				t.Error("the card has nothing to forget")
			}
			status, err := p.Status(t.Context())
			if err != nil || len(status.Workers) != 1 {
				t.Fatalf("%+v, %v", status.Workers, err)
			}
			pids, says := []int{status.Workers[0].PID}, "The process that held the token piv:serial=12345678 did not answer and was ended."
			if stopped == "agent" {
				pids, says = append(pids, status.PID), "did not answer and was ended."
			}
			for _, pid := range pids {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			locked, began := make(chan lab.Result, 1), time.Now()
			go func() {
				res, err := p.Kubehsm(t.Context(), "agent", "lock")
				if err != nil {
					t.Error(err)
				}
				locked <- res
			}()
			poll.Until(t, "they are ended", func() bool {
				left, err := p.Processes()
				if err != nil {
					t.Fatal(err)
				}
				for _, pid := range pids {
					if _, lives := left[pid]; lives {
						return false
					}
				}
				return true
			})
			t.Logf("ended after %s", time.Since(began))
			<-p.touched // only now the reader answers
			res := <-locked
			if res.Code != 0 || !strings.Contains(res.Stderr, says) || !strings.HasSuffix(res.Stderr, "\nLocked.\n") {
				t.Error(res)
			}
			poll.Until(t, "the card has forgotten the PIN", func() bool { return !p.card.Verified() })
			if stopped == "agent" { // kubectl's plugin finds it gone and begins anew
				s.Answer(pinPrompt, ownPIN)
				p.touch(s)
			}
			s.Exit()
		})
	}
}

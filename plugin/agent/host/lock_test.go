package host

import (
	"errors"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestClosedSince: what a lock cuts off is told why, and a removed token is the same error
// whether the connection or the signature ends first.
func TestClosedSince(t *testing.T) {
	for reason, want := range map[string]string{
		message.LockRemoved: "the token was removed", message.LockAsked: "you asked for it, so it was locked",
		message.LockDisconnected: "the connection to the token's server was lost, so it was locked",
		"of a later version":     "it was locked",
	} {
		err := closedSince(reason)
		if err.Error() != want || errors.Is(err, hsm.ErrRemoved) != (reason == message.LockRemoved) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// TestTokenLockForgetsAnswers: what a person has allowed ends with the lock of one token, too: a
// program that goes on after the next unlock is asked about again.
func TestTokenLockForgetsAnswers(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := consents.Scope{Enrollment: "prod", Client: process.This(), Class: consents.Delete}
	r.mustAgent(func(a *agent) {
		a.locks.answers.Remember(s, consents.ProgramOf(s.Client), nil, time.Now())
		if _, ok := a.locks.answers.Recall(s, time.Now()); !ok {
			t.Fatal("the answer is not in force")
		}
		a.locks.token(a.locks.tokens.Of(r.e.Key), message.LockRemoved)
		if _, ok := a.locks.answers.Recall(s, time.Now()); ok {
			t.Error("the answer is still in force")
		}
	})
}

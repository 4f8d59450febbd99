package host

import (
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
)

// TestClosedSince: what a lock cuts off is told why, and a removed token is the same error
// whether the connection or the signature ends first.
func TestClosedSince(t *testing.T) {
	for reason, want := range map[string]string{
		message.LockRemoved: "the token was removed", message.LockAsked: "you asked for it, so it was locked",
		"of a later version": "it was locked",
	} {
		err := closedSince(reason)
		if err.Error() != want || errors.Is(err, hsm.ErrRemoved) != (reason == message.LockRemoved) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

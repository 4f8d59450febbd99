package host

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestSuspendedClientTakesItsAnswer: the time limit passed while it was not
// running itself.
func TestSuspendedClientTakesItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() {
			time.Sleep(500 * time.Millisecond)
			_ = wire.WriteJSON(theirs, link.OK{OK: true}) // the reader notices if it does not come
		}()
		f, err := wire.ReadWithin(ours, time.Nanosecond)
		check(t, err)
		var got link.OK
		if err := f.Decode(&got); err != nil || !got.OK {
			t.Fatal(got, err)
		}
	})
}

// TestBeats: a client that waits for a person hears that the agent lives.
func TestBeats(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	c, err := net.Dial("unix", r.dirs.Socket())
	check(t, err)
	defer c.Close()
	check(t, wire.WriteJSON(c, message.SessionRequest{Header: link.Header{V: wire.Version, Op: message.OpPrepare,
		Beats: true}, Enrollment: "prod"}))
	var prompted, beat bool
	for !beat {
		f, err := wire.ReadFrame(c)
		check(t, err)
		var got struct {
			Prompt *struct{}
			Beat   bool
			Error  *link.Failure
		}
		check(t, f.Decode(&got))
		if got.Error != nil {
			t.Fatal(got.Error)
		}
		prompted = prompted || got.Prompt != nil
		beat = got.Beat
	}
	if !prompted {
		t.Error("no prompt came before")
	}
}

// TestCancelHoldsForOneTerminal: a no in one window does not cancel what waits in
// another one.
func TestCancelHoldsForOneTerminal(t *testing.T) {
	f := newFlights()
	leading, release := make(chan struct{}), make(chan struct{})
	results := make(chan error, 3)
	go func() {
		results <- f.do(context.Background(), "prod", 1, func() error {
			close(leading)
			<-release
			return hsm.ErrCancelled
		})
	}()
	<-leading
	same, other := make(chan error, 1), make(chan error, 1)
	go func() {
		same <- f.do(context.Background(), "prod", 1, func() error { return errors.New("asked again") })
	}()
	go func() { other <- f.do(context.Background(), "prod", 2, func() error { return nil }) }()
	poll.Until(t, "both wait", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.running["prod"].waiting == 2 })
	close(release)
	if err := <-results; !errors.Is(err, hsm.ErrCancelled) {
		t.Error(err)
	}
	if err := <-same; !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("at the same terminal: %v", err)
	}
	if err := <-other; err != nil {
		t.Errorf("at another terminal: %v", err)
	}
}

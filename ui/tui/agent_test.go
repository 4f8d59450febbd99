package tui

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
)

func atActivity(r *rig) {
	atTokens(r)
	r.goTo("Activity")
	r.Sees("The agent is not running")
}

func atDoctor(r *rig) {
	atTokens(r)
	r.goTo("Doctor")
	r.Sees("look again")
}

// TestFront: what the agent asks while the terminal UI is open comes up as a
// dialog that absorbs what was typed before, and goes when the asker goes.
func TestFront(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30)
	atTokens(r)
	var p hsm.Prompter
	r.Until("offered", func() bool {
		select {
		case p = <-f.offered:
		default:
		}
		return p != nil
	})
	answers := make(chan error, 1)
	ask := func(ctx context.Context) {
		yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "Delete pods web-1?", Detail: "kubectl, process 5121, on prod-hsm"})
		if err == nil && !yes {
			err = errors.New("no")
		}
		answers <- err
	}
	answered := func() (err error) {
		r.Until("an answer", func() bool {
			select {
			case err = <-answers:
				return true
			default:
				return false
			}
		})
		return err
	}
	go ask(context.Background())
	r.Sees("Delete pods web-1?", "process 5121")
	r.Press("enter")
	if err := answered(); err == nil {
		t.Error("enter is no yes")
	}
	go ask(context.Background())
	r.Sees("Delete pods web-1?")
	r.Press("y")
	if err := answered(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go ask(ctx)
	r.Sees("Delete pods web-1?")
	cancel()
	if err := answered(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.Until("taken down", func() bool { return len(r.m.dialogs.stack) == 0 })

	// While something else is open, the agent is to ask elsewhere.
	r.Press("?")
	r.Sees("Everywhere")
	go ask(context.Background())
	if err := answered(); !errors.Is(err, hsm.ErrNoTerminal) {
		t.Errorf("asked over another dialog: %v", err)
	}
}

// TestFrontGrace: keys typed ahead are not meant for a dialog that pops up.
func TestFrontGrace(t *testing.T) {
	f := newFake()
	r := newRig(t, f, 100, 30, func(r *rig, _ *Options) { r.grace = dialog.Grace })
	atTokens(r)
	answer := make(chan bool, 1)
	go func() {
		yes, err := r.m.prompter.Confirm(context.Background(), hsm.ConfirmPrompt{Question: "Delete pods?"})
		answer <- yes && err == nil
	}()
	r.Sees("Delete pods?")
	r.Press("y", "y")
	r.Sees("Delete pods?")
	r.Time = r.Time.Add(2 * time.Second)
	r.Press("y")
	r.Until("answered", func() bool { return len(answer) == 1 })
	if !<-answer {
		t.Error("the yes was not taken")
	}
}

// TestOfferFindsAnAgentSoon: an agent that kubectl has just started asks a few
// tenths of a second later.
func TestOfferFindsAnAgentSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := &lateAgent{fakeBackend: newFake(), at: time.Now().Add(time.Minute)}
		ended := make(chan error)
		go func() { ended <- offer(ctx, b, b.prompter) }()
		time.Sleep(2 * time.Minute) // of the bubble's time
		synctest.Wait()
		if b.found.IsZero() {
			t.Fatal("never found")
		}
		if after := b.found.Sub(b.at); after > 200*time.Millisecond {
			t.Errorf("found after %v", after)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// lateAgent is one that runs from a moment on.
type lateAgent struct {
	*fakeBackend
	prompter  hsm.Prompter
	at, found time.Time
}

func (a *lateAgent) OfferPerson(ctx context.Context, _ hsm.Prompter, _ func()) error {
	if time.Now().Before(a.at) {
		return client.ErrNotRunning
	}
	a.found = time.Now()
	<-ctx.Done()
	return nil
}

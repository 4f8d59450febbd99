package tui_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/ui/tui"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
)

// TestResponder: what the agent asks while the terminal UI is open comes up as a
// dialog that absorbs what was typed before, and goes when the asker goes.
func TestResponder(t *testing.T) {
	w := newWorld(t)
	offered := w.Told(message.Status{})
	r := w.open(100, 30)
	atTokens(r)
	var p hsm.Prompter
	r.Until("offered", func() bool {
		select {
		case p = <-offered:
		default:
		}
		return p != nil
	})
	answers := make(chan error, 1)
	ask := func(ctx context.Context) {
		yes, err := p.Confirm(ctx, hsm.ConfirmPrompt{Question: "Delete pods web-1?",
			Detail: "kubectl, process 5121, on prod-hsm"})
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
	r.Walk("~Delete pods web-1?", "~process 5121", "enter")
	if err := answered(); err == nil {
		t.Error("enter is no yes")
	}
	go ask(context.Background())
	r.Walk("~Delete pods web-1?", "y")
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
	r.Until("taken down", func() bool { return tui.OpenDialogs(r.Model()) == 0 })

	// While something else is open, the agent is to ask elsewhere.
	r.Walk("?", "~Everywhere")
	go ask(context.Background())
	if err := answered(); !errors.Is(err, hsm.ErrNoTerminal) {
		t.Errorf("asked over another dialog: %v", err)
	}
}

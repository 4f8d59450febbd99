package tui

import (
	"context"

	"github.com/kubehsm/kubehsm/hsm"
)

func (f *fakeBackend) AskBy(p hsm.Prompter) { f.asker = p }

// OfferPerson keeps the prompter for the test to ask, as the agent would.
func (f *fakeBackend) OfferPerson(ctx context.Context, p hsm.Prompter, _ func()) error {
	select {
	case f.offered <- p:
	default:
	}
	<-ctx.Done()
	return nil
}

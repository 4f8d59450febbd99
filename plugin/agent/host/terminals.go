package host

import (
	"slices"

	"github.com/kubehsm/kubehsm/plugin/agent/consents"
	"github.com/kubehsm/kubehsm/plugin/ask/queue"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// terminals knows who writes to a terminal.
type terminals struct {
	queue    *queue.Queue
	sessions *bridge.Sessions
	answers  *consents.Answers
}

// mayWrite tells the prompts on the client's terminal that it may write there from
// now on: it has a session, or waits for a question no longer.
func (s *terminals) mayWrite(client process.ID) {
	all := s.queue.Showing()
	if len(all) == 0 {
		return
	}
	terminal := client.Terminal()
	for _, p := range all {
		if terminal != 0 && p.Process() != client && p.Process().Terminal() == terminal {
			p.Share()
		}
	}
}

// shared tells whether programs other than the client may write to its terminal
// now: they have a session, and do not wait for a question there.
func (s *terminals) shared(client process.ID) bool {
	terminal := client.Terminal()
	return terminal != 0 && slices.ContainsFunc(s.sessions.Clients(), func(other process.ID) bool {
		return other != client && other.Terminal() == terminal && other.Alive() &&
			(!s.answers.Waits(other) || s.queue.Elsewhere(other))
	})
}

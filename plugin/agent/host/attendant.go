package host

import (
	"fmt"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// attendantTimeout is how long an attendant may take to come: it is started
// when a session is handed out, and the client's first request may be faster.
const attendantTimeout = 3 * time.Second

// attend is [message.OpAttend]. Whoever says so attends that client: it is the same user's, and
// could as well read the client's terminal.
func (s *responders) attend(l *link.Server, client process.ID, p *remotePrompter) error {
	if !client.Known() || !client.Alive() {
		return fmt.Errorf("attend process %d: it does not run", client.PID)
	}
	return s.offer(l, &responder{p: p, client: client})
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/ui/present"
)

// theAgent looks at the running agent. It starts none.
func theAgent(ctx context.Context, o *Options) []Check {
	c := Check{ID: "agent", Group: GroupAgent, Title: "Agent"}
	a, err := client.Dial(ctx, o.Env.Dirs)
	if errors.Is(err, client.ErrNotRunning) {
		return []Check{notRunning(c, o.Env.Dirs.Socket())}
	}
	if err != nil {
		return []Check{c.with(Failed, err.Error(), "kubectl signs in through it.",
			fixOr(err, "remove "+o.Env.Dirs.Socket()+" if nothing of yours listens there"))}
	}
	defer a.Close()
	s, err := a.Status(ctx)
	if err != nil {
		return []Check{c.with(Failed, err.Error(), "kubectl signs in through it.", fixOr(err, "kubehsm agent stop"))}
	}
	found := fmt.Sprintf("%s, process %d, %s, %s", s.Version, s.PID, present.Count(present.Sessions(s), "session"),
		present.Count(int(s.Signatures), "signature"))
	checks := []Check{c.ok(found)}
	if s.Newer != nil {
		checks[0] = c.with(Note, found+": a newer program waits to take over", "It does so when nothing is open.",
			"kubehsm agent stop")
	}
	if s.BridgeError != "" {
		fix := "kubehsm agent stop"
		if endpoint, err := loopback.Load(o.Env.Dirs); err == nil {
			fix = endpoint.TakenHint()
		}
		checks = append(checks, Check{ID: "bridge", Group: GroupAgent, Title: "Bridge"}.
			with(Failed, s.BridgeError, "kubectl reaches the clusters through it.", fix))
	} else if s.Bridge != "" {
		checks = append(checks, Check{ID: "bridge", Group: GroupAgent, Title: "Bridge"}.ok("listens on "+s.Bridge))
	}
	for _, l := range s.LocksOn {
		if l.Problem != "" {
			event := strings.ReplaceAll(l.Reason, "-", " ")
			checks = append(checks, Check{ID: "lock-on/" + l.Reason, Group: GroupAgent, Title: "Lock on " + event}.
				with(Note, "not available: "+l.Problem,
					"Tokens stay unlocked until their time is over, or `kubehsm agent lock`.", ""))
		}
	}
	if s.NeverFollows {
		checks = append(checks, Check{ID: "follow", Group: GroupAgent, Title: "Clusters that move"}.
			with(Note, present.NeverFollows,
				"After a cluster has changed its address or authority (CA), kubectl fails until you refresh its entry.",
				"when a cluster has moved: kubehsm kubeconfig refresh NAME"))
	}
	if s.AuditError != "" {
		checks = append(checks, Check{ID: "audit", Group: GroupAgent, Title: "Audit log"}.
			with(Warning, s.AuditError, "What is done with your keys is not written down.",
				"make room or set the permissions right"))
	}
	for _, f := range s.Unfollowed {
		c := Check{ID: "follow/" + f.Enrollment, Group: GroupClusters, Title: "Address of " + f.Enrollment}
		checks = append(checks, c.with(Warning, f.Problem,
			"When the present address or authority (CA) ends, kubectl fails.",
			"kubehsm kubeconfig refresh "+f.Enrollment))
	}
	return checks
}

// notRunning tells what is in the place of the agent's socket. One that a crash
// left behind the next agent replaces; anything else it leaves alone.
func notRunning(c Check, socket string) Check {
	const found = "not running; kubectl starts it when it is needed"
	switch info, err := os.Lstat(socket); {
	case errors.Is(err, fs.ErrNotExist):
		return c.ok(found)
	case err != nil:
		return c.with(Failed, err.Error(), "The agent listens there.", "make the folder yours alone: chmod go-w, chown")
	case info.Mode().Type() != fs.ModeSocket:
		return c.with(Failed, "not running, and cannot start: "+socket+" is no socket", "kubectl signs in through it.",
			"rm -r "+shell.Quote(socket))
	}
	return c.with(Note, found+"; an old socket was left behind",
		"The last agent did not end by itself; the next one replaces it.", "")
}

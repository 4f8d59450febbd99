package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubehsm/kubehsm/plugin/agent"
	"github.com/kubehsm/kubehsm/plugin/bridge"
)

// withAgent calls f with the running agent; without one it returns false.
func (a *app) withAgent(ctx context.Context, f func(*agent.Client) error) (running bool, err error) {
	dirs, err := a.dirs()
	if err != nil {
		return false, err
	}
	client, err := agent.Dial(ctx, dirs)
	if errors.Is(err, agent.ErrNotRunning) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer client.Close()
	return true, f(client)
}

func (a *app) agentStatus() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "status",
		Short:   "Show which tokens are unlocked, and the connections they signed",
		Example: "kubehsm agent status\nkubehsm agent status -o json",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		var doc struct {
			Running bool `json:"running"`
			*agent.Status
		}
		running, err := a.withAgent(c.Context(), func(client *agent.Client) error {
			status, err := client.Status(c.Context())
			doc.Running, doc.Status = true, &status
			return err
		})
		if err != nil {
			return err
		}
		return a.emit(o, doc, func(w *words) {
			if !running {
				w.line("The agent is not running. It starts when kubectl needs it.")
				return
			}
			statusWords(w, *doc.Status)
		})
	})
	o = output(c)
	return c
}

func statusWords(w *words, s agent.Status) {
	now := time.Now()
	address := s.Bridge
	if s.BridgeError != "" {
		address = s.BridgeError
	}
	memory := ""
	if s.Memory > 0 {
		memory = fmt.Sprintf("%d MB", s.Memory>>20)
		for _, worker := range s.Workers {
			memory += fmt.Sprintf(" + %d MB for a token (process %d)", worker.Memory>>20, worker.PID)
		}
	}
	newer := ""
	if s.Newer != nil {
		newer = fmt.Sprintf("%s is there; it takes over when nothing is open, or after `agent stop`", s.Newer)
	}
	w.fields(
		"Agent", fmt.Sprintf("%s, process %d, up %s", s.Version, s.PID, duration.HumanDuration(now.Sub(s.Started))),
		"Bridge", address, "Memory", memory,
		"Audit log", s.AuditError, "Newer", newer,
		"Signatures", fmt.Sprintf("%d, connections: %d", s.Signatures, s.Dials),
		"Sessions", fmt.Sprint(len(s.Sessions)),
	)
	if len(s.Tokens) > 0 {
		rows := make([][]string, 0, len(s.Tokens))
		for _, t := range s.Tokens {
			state := "locked"
			left := duration.HumanDuration(t.Until.Sub(now))
			switch {
			case t.Unlocked:
				state = "unlocked, for " + left + " more"
			case !t.Until.IsZero():
				state = "locked; what it has signed stays open for " + left
			}
			rows = append(rows, []string{shortURI(t.URI), state})
		}
		w.line("")
		w.table([]string{"TOKEN", "STATE"}, rows)
	}
	if len(s.Upstreams) > 0 {
		rows := make([][]string, 0, len(s.Upstreams))
		for _, u := range s.Upstreams {
			rows = append(rows, []string{u.Enrollment, u.Server, upstreamState(u), fmt.Sprint(u.Requests), fmt.Sprintf("%d of %d", u.Signatures, u.Dials)})
		}
		w.line("")
		w.table([]string{"CLUSTER", "SERVER", "STATE", "REQUESTS", "SIGNED"}, rows)
	}
	if len(s.Sessions) > 0 {
		rows := make([][]string, 0, len(s.Sessions))
		for _, e := range s.Sessions {
			left := "ended"
			switch {
			case e.Until.IsZero():
				left = "until the program ends"
			case e.Until.After(now):
				left = duration.HumanDuration(e.Until.Sub(now))
			}
			rows = append(rows, []string{e.Enrollment, fmt.Sprintf("process %d", e.Client.PID), fmt.Sprint(e.Requests), fmt.Sprint(e.Open), left})
		}
		w.line("")
		w.table([]string{"SESSION", "PROGRAM", "REQUESTS", "OPEN", "LEFT"}, rows)
	}
	if len(s.Consents) > 0 {
		rows := make([][]string, 0, len(s.Consents))
		for _, c := range s.Consents {
			rows = append(rows, []string{c.Request, c.Enrollment, fmt.Sprintf("process %d", c.Client.PID), duration.HumanDuration(now.Sub(c.Since))})
		}
		w.line("")
		w.table([]string{"WAITS FOR YOUR YES", "ENROLMENT", "PROGRAM", "SINCE"}, rows)
	}
}

// upstreamState says how the connection to an API server is, in words.
func upstreamState(u bridge.UpstreamStatus) string {
	switch {
	case u.Rejected:
		return "certificate rejected"
	case u.Connections > 0:
		return "connected (" + u.Protocol + ")"
	case u.LastError != "":
		return u.LastError
	}
	return "not connected"
}

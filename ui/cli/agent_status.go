package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

func (a *app) withAgent(ctx context.Context, f func(*client.Client) error) (running bool, err error) {
	dirs, err := a.dirs()
	if err != nil {
		return false, err
	}
	c, err := client.Dial(ctx, dirs)
	if errors.Is(err, client.ErrNotRunning) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer c.Close()
	return true, f(c)
}

func (a *app) agentStatus() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "status",
		Short:   "Show unlocked tokens and their connections",
		Example: "kubehsm agent status\nkubehsm agent status -o json",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		var doc struct {
			Running bool `json:"running"`
			*message.Status
		}
		running, err := a.withAgent(c.Context(), func(running *client.Client) error {
			status, err := running.Status(c.Context())
			doc.Running, doc.Status = true, &status
			return err
		})
		if err != nil {
			return err
		}
		return a.emit(o, doc, func(w *words) {
			if !running {
				w.line("%s", present.NoAgent)
				return
			}
			statusWords(w, *doc.Status)
		})
	})
	o = output(c)
	return c
}

func statusWords(w *words, s message.Status) {
	now := time.Now()
	w.facts(present.AgentFacts(s, now))
	all := present.OpenAt(s, now)
	if len(all) == 0 {
		return
	}
	rows := make([][]string, 0, len(all))
	for _, o := range all {
		rows = append(rows, []string{o.What, o.Enrollment, marked(o.State, o.Level)})
	}
	w.line("")
	w.table([]string{"WHAT IS OPEN", "ENROLLMENT", "STATE"}, rows)
	for _, c := range s.Consents {
		w.line("")
		for _, l := range question.All(c.Fields, w.columns()) {
			w.line("%s", l)
		}
	}
}

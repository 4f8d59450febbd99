package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) kubeconfigHistory() *cobra.Command {
	var o *format
	c := a.inEnv(&cobra.Command{
		Use:   "history",
		Short: "List the changes that kubehsm made to kubeconfig files",
		Long: `Lists the changes that kubehsm made, the latest first. "kubehsm kubeconfig undo STEP"
undoes any of them.`,
		Example: "kubehsm kubeconfig history\nkubehsm kubeconfig history -o json",
		Args:    cobra.NoArgs,
	}, func(c *cobra.Command, _ []string, env *env.Env) error {
		steps, err := contexts.New(env).History(c.Context())
		if err != nil {
			return err
		}
		doc := struct {
			Steps []stepDoc `json:"steps"`
		}{[]stepDoc{}}
		rows := [][]string{}
		for _, s := range steps {
			doc.Steps = append(doc.Steps, stepDoc(s))
			title := s.Title
			if !s.Done {
				title += " (interrupted)"
			}
			rows = append(rows, []string{s.ID, present.Date(s.Time), title, strings.Join(s.Files, ", ")})
		}
		return a.emit(o, doc, func(w *words) {
			if len(rows) == 0 {
				w.line("No change was made from this computer yet.")
				return
			}
			w.table([]string{"STEP", "WHEN", "CHANGE", "FILES"}, rows)
		})
	})
	o = output(c)
	return c
}

// stepDoc is a [kubeconfig.Step] in JSON and YAML.
type stepDoc struct {
	ID    string    `json:"id"`
	Time  time.Time `json:"time"`
	Title string    `json:"title"`
	Name  string    `json:"name"`
	Files []string  `json:"files"`
	Done  bool      `json:"done"`
}

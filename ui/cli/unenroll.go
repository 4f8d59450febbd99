package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) unenroll() *cobra.Command {
	var ch change
	c := a.command(&cobra.Command{
		Use:   "unenroll [ENROLLMENT]",
		Short: "Remove an enrollment and its kubeconfig entry",
		Long: `Removes the kubeconfig entry and the record of an enrollment. The key stays on the token,
and the certificate stays valid until it expires, for whoever has the token and its PIN.
To end the user's access, remove their role bindings.`,
		Example: "kubehsm unenroll prod-hsm --dry-run\nkubehsm unenroll prod-hsm",
		Args:    cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		e, err := a.enrollment(ctx, name)
		if err != nil {
			return err
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		u, err := contexts.New(env).Unenrollment(ctx, e.Name)
		if err != nil {
			return err
		}
		show := a.err()
		if ch.dryRun && ch.out.value == "" {
			show = a.out()
		}
		unenrollWords(show, u)
		if err := show.flush(); err != nil {
			return err
		}
		if !ch.dryRun {
			if err := a.confirm(ctx, ch.yes, present.UnenrollQuestion(u)); err != nil {
				return err
			}
			if err := contexts.New(env).Unenroll(ctx, u); err != nil {
				return err
			}
		}
		doc := struct {
			Name    string   `json:"name"`
			Removed bool     `json:"removed"`
			Files   []string `json:"files"`
			Key     string   `json:"key"`
		}{e.Name, !ch.dryRun, append([]string{}, u.Kubeconfig.Files()...), e.Key.String()}
		return a.emit(ch.out, doc, func(w *words) {
			if doc.Removed {
				w.line("%s: removed. The key is still on the token; `%s key delete --key '%s'` destroys it.", e.Name, a.name(),
					shortURI(e.Key))
			}
		})
	})
	ch.bind(c)
	return c
}

func unenrollWords(w *words, u contexts.Unenrollment) {
	w.sections(present.Unenroll(u))
	w.diff(u.Kubeconfig.Diff())
	for _, n := range u.Kubeconfig.Notes() {
		w.line("note: %s", n)
	}
}

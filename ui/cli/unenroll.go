package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/present"
)

func (a *app) unenroll() *cobra.Command {
	var ch change
	var on string
	c := a.command(&cobra.Command{
		Use:   "unenroll [ENROLLMENT]",
		Short: "Remove an enrollment and its kubeconfig entry",
		Long: `Removes the kubeconfig entry and the record of an enrollment. The key stays on the token,
and the certificate stays valid until it expires, for whoever has the token and its PIN.
To end the user's access, remove their role bindings.

Where an enrollment has the keys of several tokens, --token removes one of them, such as
that of a token that was lost. The context stays, and the other keys sign in. What the
help desk needs to know of the key is shown.`,
		Example: `kubehsm unenroll prod-hsm --dry-run
kubehsm unenroll prod-hsm
kubehsm unenroll prod-hsm --token 'piv:serial=1234567'`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		env, e, err := a.enrolled(ctx, args)
		if err != nil {
			return err
		}
		var key func(enrollment.Enrollment) bool
		if on != "" {
			lost, err := hsm.ParseURI(on)
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			key = contexts.On(lost)
		}
		u, err := contexts.New(env).Unenrollment(ctx, e.Name, key)
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
			if err := contexts.New(env).Unenroll(ctx, u, a.prompter()); err != nil {
				return err
			}
		}
		doc := struct {
			Name    string   `json:"name"`
			Removed bool     `json:"removed"`
			Files   []string `json:"files"`
			Key     string   `json:"key"`
			// Lost is what a help desk needs to know where the token was lost.
			Lost contexts.LostKey `json:"lost"`
		}{u.Enrollment.Name, !ch.dryRun, append([]string{}, u.Kubeconfig.Files()...), u.Enrollment.Key.String(), u.Lost}
		return a.emit(ch.out, doc, func(w *words) {
			if doc.Removed {
				w.line("%s: removed. The key is still on the token; `%s key delete --key '%s'` destroys it.",
					u.Enrollment.Name, a.name(), shortURI(u.Enrollment.Key))
			}
		})
	})
	c.Flags().StringVar(&on, "token", "", "`URI` of a token: remove the enrollment's key on that token alone")
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

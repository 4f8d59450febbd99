package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
)

func (a *app) bootstrapTokenDelete() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:     "delete ID...",
		Aliases: []string{"rm"},
		Short:   "Delete bootstrap tokens",
		Long: `Deletes bootstrap tokens by their IDs, the part before the dot. A whole token is
accepted too.`,
		Example: "kubehsm bootstrap-token delete abcdef",
		Args:    cobra.MinimumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		var ids []string
		for _, arg := range args {
			id, err := bootstraptoken.ParseID(arg)
			if err != nil {
				return usage(err)
			}
			ids = append(ids, id)
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		doc := struct {
			Deleted []string `json:"deleted"`
		}{[]string{}}
		for _, id := range ids {
			if err = desk.NewBootstrapTokens(env).Delete(c.Context(), a.context, id); err != nil {
				break
			}
			doc.Deleted = append(doc.Deleted, id)
		}
		return errors.Join(err, a.emit(o, doc, func(w *words) {
			for _, id := range doc.Deleted {
				w.line("bootstrap token %q deleted", id)
			}
		}))
	})
	o = output(c)
	return c
}

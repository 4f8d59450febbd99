package cli

import (
	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
)

func (a *app) bootstrapTokenGenerate() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:   "generate",
		Short: "Generate a bootstrap token without creating it in a cluster",
		Example: `kubehsm bootstrap-token generate
kubehsm bootstrap-token generate | kubehsm bootstrap-token create -`,
		Args: cobra.NoArgs,
	}, func(*cobra.Command, []string) error {
		token, err := bootstraptoken.Generate()
		if err != nil {
			return err
		}
		defer token.Wipe()
		doc := struct {
			Token string `json:"token"`
		}{token.Reveal()}
		return a.emit(o, doc, func(w *words) { w.line("%s", doc.Token) })
	})
	o = output(c)
	return c
}

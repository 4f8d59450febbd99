package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kubehsm/kubehsm/ui/flow"
)

func (a *app) csrList() *cobra.Command {
	var o *format
	var signer string
	c := a.command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the certificate requests in a cluster",
		Example: `kubehsm csr list
kubehsm csr list --context prod --signer-name kubernetes.io/kube-apiserver-client -o json`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		env, err := a.env()
		if err != nil {
			return err
		}
		all, err := env.Requests(c.Context(), a.context, signer)
		if err != nil {
			return err
		}
		views, rows := []flow.RequestView{}, [][]string{}
		for v, err := range all {
			if err != nil {
				return err
			}
			views = append(views, v)
			rows = append(rows, []string{v.Name, duration.HumanDuration(time.Since(v.Created)), v.State,
				v.Requester, v.User, strings.Join(v.Groups, ","), v.SignerName})
		}
		doc := struct {
			Requests []flow.RequestView `json:"requests"`
		}{views}
		return a.emit(o, doc, func(w *words) {
			if len(rows) == 0 {
				w.line("No requests.")
				return
			}
			w.table([]string{"NAME", "AGE", "STATE", "ASKED BY", "FOR USER", "GROUPS", "SIGNER"}, rows)
		})
	})
	c.Flags().StringVar(&signer, "signer-name", "", "only requests for the signer of this `name`")
	o = output(c)
	return c
}

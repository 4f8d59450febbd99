package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
)

// setsUsage says what SET can be.
func setsUsage() string { return "SET is " + strings.Join(desk.RBACSets(), ", ") + "; default all." }

func (a *app) rbacPrint() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:   "print [SET...]",
		Short: "Print the roles and policies as YAML",
		Long: "Prints roles, bindings and ValidatingAdmissionPolicies in YAML, to be read, changed and applied.\n\n" +
			setsUsage(),
		Example: `kubehsm rbac print
kubehsm rbac print ticket helpdesk | kubectl apply -f -`,
	}, func(_ *cobra.Command, args []string) error {
		text, err := desk.RBACManifest(args...)
		if err != nil {
			return &ui.UsageError{Err: err}
		}
		doc := struct {
			Manifest string `json:"manifest"`
		}{text}
		return a.emit(o, doc, func(w *words) { w.block(strings.TrimSuffix(text, "\n")) })
	})
	o = output(c)
	return c
}

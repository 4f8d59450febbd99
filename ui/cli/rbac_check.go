package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
)

// rbacDoc is what rbac check and apply print.
type rbacDoc struct {
	Objects []desk.RBACObject `json:"objects"`
	Rights  []desk.RBACRight  `json:"rights,omitempty"`
	Evaders *desk.Evaders     `json:"evaders,omitempty"`
	// Obstacles are why a ticket cannot work here; none of apply.
	Obstacles []string `json:"obstacles,omitempty"`
}

func (a *app) rbacCheck() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:   "check [SET...]",
		Short: "Compare the roles and policies in a cluster with the required ones",
		Long: `Shows of every role, binding and policy whether the cluster has it, and of every duty
whether you have the rights for it. It names who may evade the revocation of a
certificate, and says whether a ticket can work here at all. It fails if something is
missing or different.

` + setsUsage(),
		Example: `kubehsm rbac check --context prod
kubehsm rbac check breakglass -o json`,
	}, func(c *cobra.Command, args []string) error {
		if _, err := desk.RBACManifest(args...); err != nil {
			return &ui.UsageError{Err: err}
		}
		env, err := a.env()
		if err != nil {
			return err
		}
		var doc rbacDoc
		if doc.Objects, err = desk.NewRoles(env).Check(c.Context(), a.context, args); err != nil {
			return err
		}
		if doc.Rights, err = desk.NewRoles(env).Rights(c.Context(), a.context); err != nil {
			return err
		}
		evaders, err := desk.NewRoles(env).Evaders(c.Context(), a.context)
		if err != nil {
			return err
		}
		doc.Evaders = &evaders
		doc.Obstacles = desk.NewTickets(env).Hindered(c.Context(), a.context)
		err = a.emit(o, doc, func(w *words) {
			w.sections([]present.Section{present.Roles(doc.Objects), present.Rights(doc.Rights),
				present.Evaders(evaders), present.Obstacles(doc.Obstacles)})
		})
		return errors.Join(err, rbacWrong(doc.Objects))
	})
	o = output(c)
	return c
}

// rbacWrong is the error for a cluster that lacks something.
func rbacWrong(all []desk.RBACObject) error {
	for _, o := range all {
		if o.State == desk.RBACMissing || o.State == desk.RBACDiffers {
			return hint.With(errors.New("the cluster's roles and policies are not as they should be"),
				"a cluster admin mends it with `kubehsm rbac apply`")
		}
	}
	return desk.RBACUnenforced(all)
}

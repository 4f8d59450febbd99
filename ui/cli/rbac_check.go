package cli

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/flow/renewals"
	"github.com/kubehsm/kubehsm/ui/present"
)

// rbacDoc is what rbac check and apply print.
type rbacDoc struct {
	Objects []desk.RBACObject `json:"objects"`
	Rights  []desk.RBACRight  `json:"rights,omitempty"`
	// BrokenPolicies are those with revoked certificates that cannot be read or have no effect.
	BrokenPolicies []string `json:"brokenPolicies,omitempty"`
	// Approver is what the approver of the cluster may not do, though it should.
	Approver []string `json:"approver,omitempty"`
	// Barred are those on the roster who cannot renew; nil of apply, and if all were asked about and there are none.
	Barred *renewals.Barred `json:"cannotRenew,omitempty"`
	// Obstacles are why a ticket cannot work here; none of apply.
	Obstacles []string `json:"obstacles,omitempty"`
}

func (a *app) rbacCheck() *cobra.Command {
	var o *format
	c := a.command(&cobra.Command{
		Use:   "check [SET...]",
		Short: "Compare the roles and policies in a cluster with the required ones",
		Long: `Shows for every role, binding and policy whether the cluster has it, and for every duty
whether you have the rights for it. It names which of the policies with revoked
certificates are broken. It says whether a ticket can work here at all, and who on the
roster may not file requests, so that nobody renews their certificates. It fails if
something is missing, different or broken.

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
		list, err := desk.NewStopping(env).Broken(c.Context(), a.context)
		if err != nil {
			return err
		}
		broken := list.Err()
		if broken != nil {
			doc.BrokenPolicies = strings.Split(ui.Message(broken), "\n")
		}
		if doc.Approver, err = desk.NewRoles(env).Lacks(c.Context(), a.context, time.Now()); err != nil {
			return err
		}
		barred, err := renewals.Look(c.Context(), env, a.context, time.Now())
		if err != nil {
			return err
		}
		if barred.Err() != nil || barred.Unasked > 0 {
			doc.Barred = &barred
		}
		doc.Obstacles = desk.NewTickets(env).Hindered(c.Context(), a.context)
		err = a.emit(o, doc, func(w *words) {
			w.sections(append([]present.Section{present.Roles(doc.Objects), present.Rights(doc.Rights),
				present.BrokenPolicies(doc.BrokenPolicies), present.Obstacles(doc.Obstacles)},
				slices.Concat(present.Lacks(doc.Approver), present.Barred(barred))...))
		})
		return together(err, rbacWrong(doc.Objects), broken, barred.Err())
	})
	o = output(c)
	return c
}

// together is several errors as one, with the hints of all.
func together(all ...error) error {
	var hints []string
	for _, err := range all {
		if h := hint.Of(err); h != "" {
			hints = append(hints, h)
		}
	}
	return hint.With(errors.Join(all...), strings.Join(hints, "; "))
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

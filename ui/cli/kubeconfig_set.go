package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
)

func (a *app) kubeconfigSet() *cobra.Command {
	var ch change
	var keepCurrent, replace bool
	var mode string
	c := a.command(&cobra.Command{
		Use:   "set [ENROLLMENT]",
		Short: "Write the kubeconfig entry of an enrollment",
		Long: `Writes the context, cluster and user of an enrollment into the kubeconfig, after showing
the difference.`,
		Example: `kubehsm kubeconfig set prod-hsm
kubehsm kubeconfig set prod-hsm --dry-run
kubehsm kubeconfig set prod-hsm --mode external-signer
kubehsm kubeconfig set prod-hsm --kubeconfig ./config --keep-current --yes`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		env, e, err := a.enrolled(c.Context(), args)
		if err != nil {
			return err
		}
		set := contexts.New(env).Set
		switch mode {
		case contexts.ModeBridge:
		case contexts.ModeExternalSigner:
			set = contexts.New(env).SetSigner
		default:
			return ui.Usagef("--mode: %q is neither %s nor %s", mode, contexts.ModeBridge, contexts.ModeExternalSigner)
		}
		plan, err := set(c.Context(), e.Name, !keepCurrent, replace)
		if err != nil {
			return err
		}
		return a.apply(c.Context(), plan, ch)
	})
	c.Flags().BoolVar(&keepCurrent, "keep-current", false, "do not change the current context")
	c.Flags().BoolVar(&replace, "replace", false, "replace an entry of the same name that is not kubehsm's")
	c.Flags().StringVar(&mode, "mode", contexts.ModeBridge,
		"`mode` of access to the key: bridge works with every client, external-signer with those that have the "+
			"auth provider externalSigner")
	annotate(c.Flags(), flagChoices, []string{contexts.ModeBridge, contexts.ModeExternalSigner}, "mode")
	ch.bind(c)
	return c
}

type change struct {
	yes, dryRun bool
	out         *format
}

func (ch *change) bind(c *cobra.Command) {
	c.Flags().BoolVarP(&ch.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&ch.dryRun, "dry-run", false, "show the difference and change nothing")
	ch.out = output(c)
}

func (a *app) apply(ctx context.Context, plan *contexts.Change, ch change) error {
	doc := struct {
		Files   []string `json:"files"`
		Changed bool     `json:"changed"`
		Diff    string   `json:"diff,omitempty"`
		Notes   []string `json:"notes,omitempty"`
	}{append([]string{}, plan.Files()...), false, plan.Diff(), plan.Notes()}
	show := a.err()
	if ch.dryRun && ch.out.value == "" {
		show = a.out()
	}
	show.diff(doc.Diff)
	for _, n := range doc.Notes {
		show.line("note: %s", n)
	}
	if err := show.flush(); err != nil {
		return err
	}
	if !plan.Empty() && !ch.dryRun {
		if err := a.confirm(ctx, ch.yes, "Write this?"); err != nil {
			return err
		}
		doc.Changed = true
	}
	if !ch.dryRun {
		if err := plan.Apply(ctx); err != nil {
			return err
		}
	}
	return a.emit(ch.out, doc, func(w *words) {
		if plan.Empty() {
			w.line("Nothing to change.")
		}
		if doc.Changed {
			for _, f := range doc.Files {
				w.line("Wrote %s", f)
			}
		}
	})
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

const unprovenRisk = "unproven"

func (a *app) kubeconfigRefresh() *cobra.Command {
	var ch change
	var risk, server, file string
	var hashes []string
	c := a.command(&cobra.Command{
		Use:   "refresh [ENROLLMENT]",
		Short: "Update an enrollment whose cluster has a new address or authority",
		Long: `Reads the cluster-info of an enrolled cluster over the trusted connection, shows what
has changed since the enrollment, tries it, asks, and updates the enrollment and its
kubeconfig entry. The key signs the change, which requires its PIN.`,
		Example: `kubehsm kubeconfig refresh prod
kubehsm kubeconfig refresh prod --dry-run
kubehsm kubeconfig refresh prod --server https://new.example:6443
kubehsm kubeconfig refresh prod --discovery-file cluster.conf
kubehsm kubeconfig refresh prod --discovery-token-ca-cert-hash sha256:1234…`,
		Args: cobra.MaximumNArgs(1),
	}, func(c *cobra.Command, args []string) error {
		if risk != "" && risk != unprovenRisk {
			return ui.Usagef("--accept-risk: %q is no risk of a refresh; there is %s", risk, unprovenRisk)
		}
		env, e, err := a.enrolled(c.Context(), args)
		if err != nil {
			return err
		}
		pins, err := discovery.ParsePins(hashes)
		if err != nil {
			return err
		}
		if server != "" && len(pins) == 0 {
			return a.moveServer(c.Context(), env, e.Name, server, ch)
		}
		r, err := a.refresh(c.Context(), contexts.New(env), e.Name,
			discovery.Options{File: file, Stdin: a.Stdin, Endpoint: server, Pins: pins})
		if err != nil {
			return err
		}
		w := a.err()
		refreshWords(w, r)
		if err := w.flush(); err != nil {
			return err
		}
		doc := struct {
			*contexts.Refresh
			Changed bool   `json:"changed"`
			Diff    string `json:"diff,omitempty"`
		}{Refresh: r, Diff: r.Kubeconfig.Diff()}
		if r.Changed() && !ch.dryRun {
			if err := a.confirm(c.Context(), ch.yes, "Update the enrollment?"); err != nil {
				return err
			}
			if err := r.Apply(c.Context(), risk == unprovenRisk, a.prompter()); err != nil {
				return err
			}
			doc.Changed = true
		}
		return a.emit(ch.out, doc, func(w *words) {
			switch {
			case doc.Changed:
				w.line("The enrollment %s is updated.", r.Name)
			case !r.Changed():
				w.line("Nothing has changed.")
			}
		})
	})
	ch.bind(c)
	c.Flags().StringVar(&risk, "accept-risk", "", "accept a `risk`: "+unprovenRisk+" accepts changes that could "+
		"not be proven")
	annotate(c.Flags(), flagChoices, []string{unprovenRisk}, "accept-risk")
	c.Flags().StringVar(&server, "server", "", "new `URL` of the cluster, if the old one no longer answers")
	c.Flags().StringVar(&file, "discovery-file", "",
		"discovery `file`, or its https URL, with the cluster's new authority; - for standard input")
	c.Flags().StringSliceVar(&hashes, "discovery-token-ca-cert-hash", nil,
		"`hash` of the cluster's new certificate authority, as sha256:HEX; may be repeated")
	c.MarkFlagsMutuallyExclusive("discovery-token-ca-cert-hash", "discovery-file")
	c.MarkFlagsMutuallyExclusive("server", "accept-risk")
	c.MarkFlagsMutuallyExclusive("server", "discovery-file")
	return c
}

// refresh asks the cluster of an enrollment for its current address and CA, unless the user gives
// them.
func (a *app) refresh(ctx context.Context, of contexts.Contexts, name string,
	from discovery.Options) (*contexts.Refresh, error) {
	if from.File == "" && len(from.Pins) == 0 {
		return of.Refresh(ctx, name)
	}
	return of.RefreshFrom(ctx, name, from)
}

func (a *app) moveServer(ctx context.Context, env *env.Env, name, server string, ch change) error {
	m, err := contexts.New(env).MoveServer(ctx, name, server)
	if err != nil {
		return err
	}
	if err := m.Prove(ctx); err != nil {
		return err
	}
	w := a.err()
	w.line("- server: %s", m.Old)
	w.line("+ server: %s", m.New)
	w.line("The server there has %s.", m.Proof())
	w.line("%s", contexts.KeySigns(m.Name))
	if err := w.flush(); err != nil || ch.dryRun {
		return err
	}
	if err := a.confirm(ctx, ch.yes, "Use the address "+m.Host+" for "+m.Name+" from now on?"); err != nil {
		return err
	}
	if err := m.ApplyAll(ctx, a.prompter()); err != nil {
		return err
	}
	return a.emit(ch.out, m, func(w *words) { w.line("The enrollment %s now uses %s.", m.Name, m.Host) })
}

func refreshWords(w *words, r *contexts.Refresh) {
	for _, c := range r.Changes {
		if c.Old != "" {
			w.line("- %s: %s", c.Field, c.Old)
		}
		if c.New != "" {
			w.line("+ %s: %s", c.Field, c.New)
		}
	}
	if r.Changed() {
		w.line("%s", contexts.KeySigns(r.Name))
	}
	if r.Unproven != "" {
		w.line("warning: it could not be proven: %s", r.Unproven)
	}
	if d := r.Kubeconfig.Diff(); d != "" && r.Changed() {
		w.line("")
		w.diff(d)
	}
}

package enroll

import (
	"context"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
)

// writeKubeconfig writes the entries and makes the context current, in one change,
// now that it has signed in; a second run finds them as they should be.
func (r *attempt) writeKubeconfig(ctx context.Context) (outcome, error) {
	kept := contexts.New(r.env).KeptCurrent(ctx, r.j.Enrollment())
	change, err := contexts.New(r.env).PlanEntry(ctx, r.j.Enrollment(), !r.j.Options.KeepCurrent && kept == "", r.j.Options.Replace)
	if err != nil {
		return outcome{}, err
	}
	if kept != "" && !r.j.Options.KeepCurrent {
		r.note("%s", contexts.KeptNote(kept, r.j.Options.Name))
	}
	r.result.Kubeconfig = r.env.Rules().DefaultFile()
	if !change.Empty() {
		r.result.Kubeconfig = change.Files()[0]
		for _, n := range change.Notes() {
			r.note("%s", n)
		}
		if err := change.Apply(ctx); err != nil {
			return outcome{}, err
		}
	}
	r.result.Notes = r.notes
	return outcome{message: r.result.Kubeconfig, reused: change.Empty()}, nil
}

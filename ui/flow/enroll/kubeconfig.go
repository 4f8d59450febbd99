package enroll

import (
	"context"

	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// planEntry works out how the kubeconfig gets its entries, and says why the current
// context stays as it is, if that was not asked for. A spare's entries are those of its enrollment.
func planEntry(ctx context.Context, e *env.Env,
	j *enrolling.Progress) (change *contexts.Change, kept string, err error) {
	o, en := j.Options, j.Enrollment()
	if o.SpareOf != "" {
		if en, err = e.Enrollments().Load(o.SpareOf); err != nil {
			return nil, "", err
		}
	}
	current := contexts.New(e).KeptCurrent(ctx, en)
	change, err = contexts.New(e).PlanEntry(ctx, en, !o.KeepCurrent && current == "" && o.SpareOf == "", o.Replace)
	if current != "" && !o.KeepCurrent {
		kept = contexts.KeptNote(current, o.Name)
	}
	return change, kept, err
}

// writeKubeconfig writes the entries and makes the context current, in one change,
// now that it has signed in; a second run finds them as they should be.
func (r *attempt) writeKubeconfig(ctx context.Context) (outcome, error) {
	change, kept, err := planEntry(ctx, r.env, r.record)
	if err != nil {
		return outcome{}, err
	}
	if kept != "" {
		r.note("%s", kept)
	}
	r.result.Kubeconfig = r.env.Rules().DefaultFile()
	if !change.Empty() {
		r.result.Kubeconfig = change.Files()[0]
		for _, n := range change.Notes() {
			r.note("%s", n)
		}
	}
	if err := change.Apply(ctx); err != nil {
		return outcome{}, err
	}
	r.result.Notes = r.notes
	return outcome{message: r.result.Kubeconfig, reused: change.Empty()}, nil
}

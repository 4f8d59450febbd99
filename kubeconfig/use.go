package kubeconfig

import "context"

// PlanUse works out how the context called name becomes the current one. The
// error wraps [ErrNoContext] if there is no such context.
func (r Rules) PlanUse(ctx context.Context, name string) (*Plan, error) {
	c, err := r.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	w, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	edits := make([][]edit, len(w.docs))
	if w.current() != c.Name {
		edits[w.target] = append(edits[w.target], edit{Section: currentContext, Value: c.Name})
	}
	return w.plan(edits)
}

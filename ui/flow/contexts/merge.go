package contexts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// ErrNoSpare says that an enrollment cannot be the spare of another one.
var ErrNoSpare = errors.New("it cannot be a spare")

// Merge plans to make the enrollment called spare a spare of the one called into: its context goes, and its key
// signs for the other's, too. Requests are then asked about if the policy of either asks. Taking back the change of the
// kubeconfig ([Contexts.Undo]) parts them again. Errors: [ErrNoSpare], [enrollment.ErrUnknown].
func Merge(ctx context.Context, e *env.Env, spare, into string) (*Change, error) {
	_, second, err := mergeable(e, spare, into)
	if err != nil {
		return nil, err
	}
	k := New(e)
	all, err := k.List(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(v View) bool { return v.Current && v.Ours && v.Enrollment == spare }) {
		return nil, hint.Withf(fmt.Errorf("the context of %s is the current one", spare),
			"`kubehsm kubeconfig use %s` first", into)
	}
	change, err := k.Remove(ctx, spare)
	if err != nil {
		return nil, err
	}
	change.merges = second.SpareOf != into
	change.plan.Notes = append(change.plan.Notes,
		fmt.Sprintf("%s becomes a spare of %s: either key signs in by the context %s", spare, into, into))
	change.around = func(ctx context.Context, write func(context.Context) error) error {
		for _, name := range []string{into, spare} {
			release, err := e.Lock(ctx, name)
			if err != nil {
				return err
			}
			defer release()
		}
		_, second, err := mergeable(e, spare, into) // the records may have changed since the person was asked
		if err != nil {
			return err
		}
		if err := write(ctx); err != nil {
			return err
		}
		second.SpareOf = into
		return e.Enrollments().Save(second)
	}
	return change, nil
}

// mergeable returns the enrollments of both names, if the one called spare can be a spare of the other.
func mergeable(e *env.Env, spare, into string) (first, second enrollment.Enrollment, err error) {
	store := e.Enrollments()
	if first, err = store.Load(into); err != nil {
		return first, second, err
	}
	if second, err = store.Load(spare); err != nil {
		return first, second, err
	}
	further, err := store.Spares(spare)
	if err != nil {
		return first, second, err
	}
	why := ""
	switch {
	case spare == into:
		why = "it is the same one"
	case first.SpareOf != "":
		why = into + " is a spare of " + first.SpareOf
	case second.SpareOf != "" && second.SpareOf != into:
		why = "it is a spare of " + second.SpareOf
	case len(further) > 0:
		why = "it has a spare itself: " + further[0].Name
	case first.Cluster.Server != second.Cluster.Server:
		why = "it leads to " + second.Cluster.Server + ", the other to " + first.Cluster.Server
	case first.User != second.User || !slices.Equal(first.Groups, second.Groups):
		why = "its user or groups are others"
	case enrolling.SameToken(first.Key.TokenOnly(), second.Key):
		why = "its key is on the same token"
	}
	if why != "" {
		err = hint.With(fmt.Errorf("%s: %w of %s: %s", spare, ErrNoSpare, into, why),
			"`kubehsm kubeconfig list` shows the enrollments; `kubehsm enroll --spare` makes a new spare")
	}
	return first, second, err
}

// parts has c, which takes a change back, make an enrollment by itself of the spare whose context it brings back.
func (c *Change) parts(ctx context.Context) error {
	name, k := c.plan.Name, c.from
	if errors.Is(enrollment.ValidName(name), enrollment.ErrInvalid) { // the context is not one of ours
		return nil
	}
	en, err := k.env.Enrollments().Load(name)
	if errors.Is(err, enrollment.ErrUnknown) || err == nil && en.SpareOf == "" {
		return nil
	}
	if err != nil {
		return err
	}
	here, err := has(ctx, k, name)
	if err != nil {
		return err
	}
	if c.merges = here && c.plan.Empty(); c.merges || !here && !c.plan.Empty() {
		c.plan.Notes = append(c.plan.Notes,
			fmt.Sprintf("%s is no longer a spare of %s: it is an enrollment by itself", name, en.SpareOf))
	}
	c.around = func(ctx context.Context, write func(context.Context) error) error {
		release, err := k.env.Lock(ctx, name)
		if err != nil {
			return err
		}
		defer release()
		if err := write(ctx); err != nil {
			return err
		}
		if here, err := has(ctx, k, name); err != nil || !here {
			return err
		}
		en, err := k.env.Enrollments().Load(name)
		if err != nil {
			return err
		}
		en.SpareOf = ""
		return k.env.Enrollments().Save(en)
	}
	return nil
}

// has tells whether there is a context for the enrollment called name.
func has(ctx context.Context, k Contexts, name string) (bool, error) {
	all, err := k.List(ctx)
	return slices.ContainsFunc(all, func(v View) bool { return v.Ours && v.Enrollment == name }), err
}

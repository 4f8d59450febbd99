package contexts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// ErrSeveral says that nothing tells which of several enrollments is meant.
var ErrSeveral = errors.New("there are several enrollments")

// Meant is the enrollment called name. Without a name it is the one that the kubeconfig
// context signs in with, "" being the current context, else the only one that there is,
// apart from spares.
func Meant(ctx context.Context, e *env.Env, name, kubeContext string) (enrollment.Enrollment, error) {
	store := e.Enrollments()
	if name != "" {
		return store.Load(name)
	}
	all, err := store.List()
	if err != nil {
		return enrollment.Enrollment{}, err
	}
	all = slices.DeleteFunc(all, func(e enrollment.Enrollment) bool { return e.SpareOf != "" })
	switch len(all) {
	case 0:
		return enrollment.Enrollment{}, hint.With(errors.New("nothing is enrolled yet"),
			"`kubehsm enroll` makes an enrollment")
	case 1:
		return all[0], nil
	}
	listed, err := New(e).List(ctx)
	if err != nil {
		return enrollment.Enrollment{}, err
	}
	names := ""
	for _, known := range all {
		names += " " + known.Name
		for _, v := range listed {
			if v.Ours && v.Enrollment == known.Name && (v.Name == kubeContext || kubeContext == "" && v.Current) {
				return known, nil
			}
		}
	}
	return enrollment.Enrollment{}, fmt.Errorf("%w: name one of%s", ErrSeveral, names)
}

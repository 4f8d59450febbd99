package contexts

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// Unenrollment is what goes when an enrollment is removed.
type Unenrollment struct {
	Enrollment enrollment.Enrollment
	// Kubeconfig is the change of the kubeconfig files; it may be empty.
	Kubeconfig *Change
	// SameKey are other enrollments with the same key, which stay.
	SameKey []string
}

// Unenrollment works out what removing the enrollment called name changes.
// Nothing is changed yet.
func (k Contexts) Unenrollment(ctx context.Context, name string) (Unenrollment, error) {
	en, err := k.env.Enrollments().Load(name)
	if err != nil {
		return Unenrollment{}, err
	}
	u := Unenrollment{Enrollment: en}
	if u.Kubeconfig, err = k.Remove(ctx, name); err != nil {
		return u, err
	}
	all, err := k.env.Enrollments().List()
	if err != nil {
		return u, err
	}
	for _, other := range all {
		if other.KeyHash == en.KeyHash && other.Name != name {
			u.SameKey = append(u.SameKey, other.Name)
		}
	}
	return u, nil
}

// Unenroll takes the kubeconfig entry out, then forgets the enrollment, its
// certificates and its record, and locks the agent, so that nothing signed in
// goes on. The key and its certificate stay on the token, and the certificate
// stays valid until it ends. So does the consent policy that the key has signed, for other
// enrollments of the key, of today or later. It can be repeated after a failure.
func (k Contexts) Unenroll(ctx context.Context, u Unenrollment) error {
	name := u.Enrollment.Name
	release, err := k.env.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	if err := u.Kubeconfig.Apply(ctx); err != nil {
		return err
	}
	if err := os.Remove(enrolling.NewStore(k.env).Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	agent := session.Agent{Env: k.env}
	if err := agent.StayStrict(ctx, u.Enrollment); err != nil {
		return err
	}
	gone := audit.Record{Reason: audit.PolicyRemoved, Was: u.Enrollment.Consent().String()}
	if err := agent.RecordPolicy(u.Enrollment, gone); err != nil {
		return err
	}
	if err := k.env.Enrollments().Delete(name); err != nil && !errors.Is(err, enrollment.ErrUnknown) {
		return err
	}
	if err := token.LockAgent(ctx, k.env); err != nil {
		return hint.With(err, "the enrollment is removed; `kubehsm agent stop` closes connections that are signed in")
	}
	return nil
}

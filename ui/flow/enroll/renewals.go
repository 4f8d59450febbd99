package enroll

import (
	"errors"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// renewals are what is on record of them, which the agent goes by, too.
type renewals struct{ env *env.Env }

// load reads what is on record of the renewals of e. A person's renewal goes on without a record that is
// damaged, which it replaces; one of a later version is an error.
func (n renewals) load(e enrollment.Enrollment) (enrollment.Renewal, error) {
	known, err := n.env.Enrollments().Renewals().Load(e)
	if err != nil && !errors.Is(err, record.ErrNewer) {
		known, err = enrollment.Renewal{KeyHash: e.KeyHash}, nil
	}
	return known, err
}

// change changes what is on record of the renewals of j's key. The enrollment is locked.
func (n renewals) change(j *enrolling.Progress, f func(*enrollment.Renewal)) error {
	store, of := n.env.Enrollments().Renewals(), enrollment.Enrollment{Name: j.Options.Name, KeyHash: j.Request.KeyHash}
	known, err := n.load(of)
	if err != nil {
		return err
	}
	f(&known)
	return store.Save(of.Name, known)
}

// takeOver has a new renewal go on with the request that the agent has filed, unless another
// lifetime is asked for.
func (n renewals) takeOver(en enrollment.Enrollment, j *enrolling.Progress) error {
	known, err := n.load(en)
	if err != nil || known.Request == nil || known.Request.UID == "" || known.Expiration != j.Options.Expiration {
		return err
	}
	q := &j.Request
	q.Ask(known.Request.Name, known.Request.PKCS10, &j.Options)
	q.UID, q.Server, q.Created = known.Request.UID, j.Cluster.Server, known.Request.Made
	return nil
}

// share has the agent leave a renewal alone that a person goes on with.
func (n renewals) share(j *enrolling.Progress) error {
	if j.Options.Renewal == nil {
		return nil
	}
	return n.change(j, func(known *enrollment.Renewal) {
		q := j.Request
		known.Request = &enrollment.RenewalRequest{Name: q.Name, UID: q.UID, PKCS10: q.Spec.Request,
			Made: time.Now().UTC().Truncate(time.Second), ByPerson: true}
	})
}

// carryPresent has a renewal carry the certificate that it is filed with, by which an approver in
// the cluster sees whether the key is the same.
func (n renewals) carryPresent(j *enrolling.Progress) error {
	o := j.Options
	if o.Renewal == nil || o.Renewal.With != "" {
		return nil
	}
	store := n.env.Enrollments()
	en, err := store.Load(o.Name)
	if err != nil {
		return err
	}
	chain, err := store.Certificate(store.InUse(en)) // the agent has just signed in with that key
	if err != nil {
		return err
	}
	j.Request.Spec.Annotations = clusterapi.Present(chain[0])
	return nil
}

package desk

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// ApproverPatience is how long who revokes waits for the approver, unless [Stop.Patience] says more.
const ApproverPatience = 30 * time.Second

// waitingPolicy stands for the policy of an entry that the approver has not written yet.
const waitingPolicy = "none yet"

// errMayNot is a caller who may not revoke certificates, in a cluster where no approver does it for them.
var errMayNot = errors.New("you may not revoke certificates")

func revocationNamed(name string) object {
	return object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "Revocation",
		"metadata": map[string]any{"namespace": clusterapi.Namespace, "name": name}}
}

// filedObject is a Revocation, and the object that it was read from.
type filedObject struct {
	clusterapi.Revocation
	from object
}

// filed lists the Revocations of the cluster, none where the approver is not installed.
func (c *objects) filed(ctx context.Context) (all []filedObject, served bool, err error) {
	err = c.list(ctx, revocationNamed(""), func(o object) {
		f := filedObject{from: o}
		if o.into(&f.Revocation) == nil {
			all = append(all, f)
		}
	})
	if isForbidden(err) { // also where the approver is not installed: everybody may ask what is served
		_, served := c.do(ctx, "ask what is served", c.rest.Get().AbsPath("/apis/"+clusterapi.GroupVersion.String()))
		if apierrors.IsNotFound(served) {
			err = served
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return all, err == nil, err
}

// readable makes of what [objects.filed] returns none where the caller may not read them.
func readable(all []filedObject, served bool, err error) ([]filedObject, bool, error) {
	if isForbidden(err) {
		err = nil
	}
	return all, served, err
}

// Filed lists the Revocations in the cluster of a context, which its approver carries out, the latest
// first; none where there is no approver.
func (s Stopping) Filed(ctx context.Context, kubeContext string) ([]clusterapi.Revocation, error) {
	c, _, err := s.open(ctx, kubeContext)
	if err != nil {
		return nil, err
	}
	found, _, err := readable(c.filed(ctx))
	var all []clusterapi.Revocation
	for _, f := range found {
		all = append(all, f.Revocation)
	}
	slices.SortStableFunc(all, func(a, b clusterapi.Revocation) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return all, err
}

// mayFile tells whether the caller may have the approver revoke certificates.
func (c *objects) mayFile(ctx context.Context) (bool, error) {
	ok, err := c.may(ctx, access{Verb: "create", Group: clusterapi.GroupVersion.Group, Resource: "revocations",
		Namespace: clusterapi.Namespace})
	if err != nil || !ok {
		return false, err
	}
	_, served, err := readable(c.filed(ctx))
	return served, err
}

// file has the approver revoke the targets, a user's by one Revocation, and waits for it.
func (c *objects) file(ctx context.Context, stop *Stop, by, reason string) error {
	users := map[string][]Target{}
	about := map[string]bool{} // certificates
	for _, t := range stop.Targets {
		users[t.User] = append(users[t.User], t)
		about[t.Certificate] = true
	}
	for _, t := range stop.Already {
		about[t.Certificate] = true
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		for some := range slices.Chunk(users[user], clusterapi.MaxRevoked) {
			id := make([]byte, 8)
			if _, err := rand.Read(id); err != nil {
				return err
			}
			spec := clusterapi.RevocationSpec{User: revocation.Brief(user), Reason: revocation.Brief(reason), By: by}
			for _, t := range some {
				spec.Add(t.Entry)
			}
			o := revocationNamed("revoked-" + hex.EncodeToString(id))
			o["spec"] = spec
			if err := c.create(ctx, o); err != nil {
				return err
			}
		}
	}
	all, _, err := c.filed(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(f filedObject) bool {
		return !slices.ContainsFunc(f.Spec.Certificates,
			func(c clusterapi.RevokedCertificate) bool { return about[c.Fingerprint] })
	})
	stop.Done = c.acted(ctx, all, cmp.Or(stop.Patience, ApproverPatience))
	return nil
}

// acted waits until the approver has put Revocations in force.
func (c *objects) acted(ctx context.Context, all []filedObject, patience time.Duration) *Enforcement {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	next := time.NewTicker(revocation.EnforcedEvery)
	defer next.Stop()
	for _, r := range all {
		for {
			condition := meta.FindStatusCondition(r.Status.Conditions, clusterapi.InForce)
			if condition != nil && condition.Status == metav1.ConditionTrue {
				break
			}
			select {
			case <-ctx.Done():
				note := "the approver has not acted within " + span.Limit(patience)
				if condition != nil {
					note = "the approver could not put the revocation in force: " + condition.Message
				}
				return &Enforcement{Approver: true, Note: note}
			case <-next.C:
			}
			o, err := c.get(ctx, revocationNamed(r.Name))
			if err == nil {
				err = o.into(&r.Revocation)
			}
			if err != nil && ctx.Err() == nil {
				return &Enforcement{Approver: true, Note: err.Error()}
			}
		}
	}
	return &Enforcement{Approver: true, InForce: true, After: time.Since(began).Round(time.Millisecond)}
}

// Pending is the error for a revocation that the approver has not put in force yet; nil if it is.
func (s Stop) Pending() error {
	if s.Done == nil || !s.Done.Approver || s.Done.InForce {
		return nil
	}
	return hint.With(fmt.Errorf("the revocation is filed but not in force yet: %s", s.Done.Note),
		"`kubehsm revocation list` shows when it is; a cluster admin can revoke at once with the same command")
}

// unfile takes certificates out of the Revocations that name them, and says which it has found there.
func (c *objects) unfile(ctx context.Context, certificates []string) (found map[string]bool, err error) {
	all, _, err := c.filed(ctx)
	if isForbidden(err) {
		err = hint.With(err, "the approver would put back what a Revocation still names: ask somebody who may read and "+
			"change the Revocations in the namespace "+clusterapi.Namespace+" to lift the revocation")
	}
	if err != nil {
		return nil, err
	}
	found = map[string]bool{}
	for _, f := range all {
		left := slices.DeleteFunc(slices.Clone(f.Spec.Certificates), func(c clusterapi.RevokedCertificate) bool {
			lifted := slices.Contains(certificates, c.Fingerprint)
			found[c.Fingerprint] = found[c.Fingerprint] || lifted
			return lifted
		})
		switch len(left) {
		case len(f.Spec.Certificates):
			continue
		case 0:
			err = c.delete(ctx, f.from)
		default:
			f.Spec.Certificates = left
			f.from["spec"] = f.Spec
			err = c.replace(ctx, f.from)
		}
		if revocation.IsRefusal(err) {
			err = hint.With(err, "your own certificate is revoked: another cluster admin can lift that")
		}
		if err != nil && !isNotFound(err) {
			return nil, err
		}
	}
	return found, nil
}

package approver

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// Revocations puts what Revocations name on the list of revoked certificates, which the admission
// policies are, and puts policies right that somebody has changed. It takes nothing off the list but
// what has ended: an admin does that.
type Revocations struct {
	// Cache tells of policies; API reads past it; Objects writes.
	Cache   client.Reader
	API     client.Reader
	Objects client.Client
	// Events tells of policies that are broken.
	Events events.EventRecorder
	// Rights has the API server's clock: by another one, revocations that live would end.
	Rights csr.Rights
}

// Start has the manager run it.
func (r *Revocations) Start(mgr ctrl.Manager) error {
	// All of them are one piece of work, which is done once for all that came meanwhile.
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "list"}}}
	})
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).Named("revocations").
		Watches(&clusterapi.Revocation{}, all, changed).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicy{}, all, changed).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, all, changed).
		Complete(r)
}

// The reasons of the condition [clusterapi.InForce].
const (
	reasonEnforced    = "Enforced"
	reasonNotEnforced = "NotEnforced" // the list has it, and the API server does not enforce it yet
	reasonNotWritten  = "NotWritten"  // the list could not be written
)

// endsAgain bounds how long it takes until what has ended is taken off.
const endsAgain = time.Hour

// Reconcile implements [reconcile.Reconciler].
func (r *Revocations) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := time.Time{} // without the API server's clock nothing ends
	if me, err := r.Rights.WhoAmI(ctx); err == nil {
		now = me.At
	} else {
		log.FromContext(ctx).Error(err, "ask for the API server's time")
	}
	var all []clusterapi.Revocation
	list, found := revocation.Ledger{API: policyAPI{r.API, r.Objects}, Named: true}, revocation.List{}
	shards, err := list.Hold(ctx, now, func(ctx context.Context, l revocation.List) ([]revocation.Entry, error) {
		found = l
		var wanted []revocation.Entry
		var objects clusterapi.RevocationList
		if err := r.API.List(ctx, &objects, client.InNamespace(clusterapi.Namespace)); err != nil {
			return nil, err
		}
		all = objects.Items
		for i := range all {
			wanted = append(wanted, all[i].Entries()...)
		}
		return wanted, nil
	})
	r.tell(ctx, found)
	condition := metav1.Condition{Type: clusterapi.InForce, Status: metav1.ConditionFalse, Reason: reasonNotWritten}
	if err == nil {
		condition.Reason = reasonNotEnforced
		err = list.Await(ctx, shards, r.probe)
	}
	if err == nil {
		condition.Status, condition.Reason = metav1.ConditionTrue, reasonEnforced
	} else {
		condition.Message = csr.Brief(err.Error())
	}
	on := map[string]bool{} // the certificates that are in the policies
	for e := range (revocation.List{Shards: shards}).All() {
		on[e.Certificate] = true
	}
	for i := range all {
		err = errors.Join(err, r.report(ctx, &all[i], condition, on, now))
	}
	return reconcile.Result{RequeueAfter: endsAgain}, err
}

// report writes the status of one Revocation, or deletes one that has ended.
func (r *Revocations) report(ctx context.Context, o *clusterapi.Revocation, condition metav1.Condition,
	on map[string]bool, now time.Time) error {
	until := o.Until()
	if !until.IsZero() && !now.Before(until) {
		same := client.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}
		return client.IgnoreNotFound(r.Objects.Delete(ctx, o, same))
	}
	old := o.Status.DeepCopy()
	if condition.Status == metav1.ConditionTrue {
		o.Status.Certificates = 0
		for _, c := range o.Spec.Certificates {
			if on[c.Fingerprint] {
				o.Status.Certificates++
			}
		}
		condition.Message = fmt.Sprintf("an API server refuses what %d of %d certificates write; they can read until "+
			"they end", o.Status.Certificates, len(o.Spec.Certificates))
		if o.Status.InForceSince == nil {
			o.Status.InForceSince = &metav1.Time{Time: time.Now().Truncate(time.Second)}
		}
	} else if meta.IsStatusConditionTrue(o.Status.Conditions, clusterapi.InForce) {
		return nil // another Revocation has failed: nothing was taken off the list
	}
	if o.Status.Until = nil; !until.IsZero() {
		o.Status.Until = &metav1.Time{Time: until}
	}
	condition.ObservedGeneration = o.Generation
	meta.SetStatusCondition(&o.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(*old, o.Status) {
		return nil
	}
	return client.IgnoreNotFound(r.Objects.Status().Update(ctx, o))
}

// probe is what [revocation.Ledger.Await] asks the API server.
func (r *Revocations) probe(ctx context.Context, name string) error {
	named := metav1.ObjectMeta{Namespace: clusterapi.Namespace, Name: name}
	return r.Objects.Create(ctx, &corev1.ConfigMap{ObjectMeta: named}, client.DryRunAll)
}

// tell makes an Event for each policy that was broken as the list was read.
func (r *Revocations) tell(ctx context.Context, l revocation.List) {
	for _, s := range l.Shards {
		err := revocation.List{Shards: []revocation.Shard{s}}.Err()
		if err == nil {
			continue
		}
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		if r.Cache.Get(ctx, types.NamespacedName{Name: s.Name}, &policy) != nil {
			policy.Name = s.Name // the cache is behind
		}
		action, what := "Repair", "; the approver repairs it"
		if s.Err != nil {
			action, what = "Leave", "; the approver leaves it as it is, and writes new entries to another policy"
		}
		r.Events.Eventf(&policy, nil, corev1.EventTypeWarning, "RevocationPolicyBroken", action, "%s",
			csr.Brief(err.Error()+what))
	}
}

// policyAPI is [revocation.API] past the cache, with every field that the API server has.
type policyAPI struct {
	reader client.Reader
	writer client.Client
}

// List implements [revocation.API].
func (a policyAPI) List(ctx context.Context, apiVersion, kind string) (all []revocation.Object, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind+"List"))
	if err := a.reader.List(ctx, list); err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		all = append(all, o.Object)
	}
	return all, nil
}

// Create implements [revocation.API].
func (a policyAPI) Create(ctx context.Context, o revocation.Object) error {
	return a.writer.Create(ctx, &unstructured.Unstructured{Object: o})
}

// Replace implements [revocation.API].
func (a policyAPI) Replace(ctx context.Context, o revocation.Object) error {
	return a.writer.Update(ctx, &unstructured.Unstructured{Object: o})
}

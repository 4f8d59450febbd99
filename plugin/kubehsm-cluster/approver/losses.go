package approver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// Losses carries out what owners report of their tokens: the token is lost from then on, so that the judge gives its
// keys no further certificate, and a Revocation names its certificates.
type Losses struct {
	// Cache tells of reports and Revocations; API reads past it; Objects writes.
	Cache   client.Reader
	API     client.Reader
	Objects client.Client
	// Events tells of tokens that were reported, and of reports of somebody else's.
	Events events.EventRecorder
}

// Start has the manager run it.
func (l *Losses) Start(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("losses").
		For(&clusterapi.LossReport{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterapi.Revocation{}, handler.EnqueueRequestsFromMapFunc(l.all)). // one may be in force now
		Complete(l)
}

// all are the reports, which are few.
func (l *Losses) all(ctx context.Context, _ client.Object) (all []reconcile.Request) {
	var list clusterapi.LossReportList
	if err := l.Cache.List(ctx, &list, client.InNamespace(clusterapi.Namespace)); err != nil {
		log.FromContext(ctx).Error(err, "list loss reports in the cache")
	}
	for i := range list.Items {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return all
}

// The reasons of a report's condition besides those of Revocations and [clusterapi.NotYours].
const reasonNothing = "NothingToRevoke" // the token never had a certificate, or the last one has ended

// Reconcile implements [reconcile.Reconciler]. It looks once more before it deletes a report: a request that was
// approved just before may have been signed since.
func (l *Losses) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	report := &clusterapi.LossReport{}
	if err := l.Cache.Get(ctx, req.NamespacedName, report); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	old := report.DeepCopy()
	condition, err := l.carryOut(ctx, report)
	if err != nil {
		condition = metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonNotWritten, Message: csr.Brief(err.Error())}
	}
	condition.Type = clusterapi.InForce
	meta.SetStatusCondition(&report.Status.Conditions, condition)
	if !equality.Semantic.DeepEqual(old.Status, report.Status) && !apierrors.IsConflict(err) {
		err = errors.Join(err, client.IgnoreNotFound(l.Objects.Status().Update(ctx, report)))
	}
	if apierrors.IsConflict(err) { // the cache is behind: the next look sees it
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	if err != nil || condition.Reason == reasonNotEnforced {
		return reconcile.Result{}, err
	}
	answered := meta.FindStatusCondition(report.Status.Conditions, clusterapi.InForce)
	if left := clusterapi.ReportKept - time.Since(answered.LastTransitionTime.Time); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(l.Objects.Delete(ctx, report, client.Preconditions{UID: &report.UID}))
}

// carryOut does what is left to do, and tells how far that is. It writes what is revoked into the report's status.
func (l *Losses) carryOut(ctx context.Context, report *clusterapi.LossReport) (metav1.Condition, error) {
	token := &clusterapi.HardwareToken{}
	err := l.API.Get(ctx, types.NamespacedName{Namespace: clusterapi.Namespace, Name: report.Spec.Token}, token)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return metav1.Condition{}, err
	case err != nil || token.Spec.Owner != report.Spec.By: // the same words: nobody finds out what is on the roster
		condition := metav1.Condition{Status: metav1.ConditionFalse, Reason: clusterapi.NotYours,
			Message: fmt.Sprintf("the roster has no token %s of %q", report.Spec.Token, report.Spec.By)}
		if len(report.Status.Conditions) == 0 {
			l.Events.Eventf(report, nil, corev1.EventTypeWarning, clusterapi.NotYours, "Refuse", "%s",
				csr.Brief(condition.Message))
		}
		return condition, nil
	case token.Spec.State != clusterapi.Lost:
		token.Spec.State = clusterapi.Lost
		if err := l.Objects.Update(ctx, token); err != nil {
			return metav1.Condition{}, fmt.Errorf("write the state of the token %s on the roster: %w", token.Name, err)
		}
		l.Events.Eventf(token, nil, corev1.EventTypeWarning, "ReportedLost", "Revoke", "%s",
			csr.Brief(fmt.Sprintf("its owner %q reports it lost", report.Spec.By)))
	}
	live := token.Status.Live(time.Now())
	pending, err := l.revoke(ctx, report, live)
	if err != nil {
		return metav1.Condition{}, err
	}
	report.Status.Certificates, report.Status.Until = int32(len(live)), nil
	for _, c := range live {
		if report.Status.Until == nil || report.Status.Until.Before(&c.NotAfter) {
			report.Status.Until = &c.NotAfter
		}
	}
	switch {
	case pending:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonNotEnforced,
			Message: "the token is lost, and the revocation of its certificates is not in force yet"}, nil
	case report.Status.Certificates == 0:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonNothing,
			Message: "the token is lost; it has no valid certificate"}, nil
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonEnforced,
		Message: "the token is lost, and an API server refuses what its certificates write"}, nil
}

// revoke files a Revocation of the certificates that no earlier one of the same token names, and tells whether any
// of them is not in force yet.
func (l *Losses) revoke(ctx context.Context, report *clusterapi.LossReport, live []clusterapi.TokenCertificate) (
	pending bool, err error) {
	var filed clusterapi.RevocationList
	if err := l.Cache.List(ctx, &filed, client.InNamespace(clusterapi.Namespace)); err != nil {
		return false, err
	}
	prefix, inForce := "lost-"+report.Spec.Token+"-", map[string]bool{} // by certificate
	for _, r := range filed.Items {
		for _, c := range live {
			if strings.HasPrefix(r.Name, prefix) && revokes(r.Spec, c) {
				inForce[c.Certificate] = inForce[c.Certificate] ||
					meta.IsStatusConditionTrue(r.Status.Conditions, clusterapi.InForce)
			}
		}
	}
	r := &clusterapi.Revocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterapi.Namespace, GenerateName: prefix},
		Spec: clusterapi.RevocationSpec{User: report.Spec.By, By: report.Spec.By,
			Reason: cmp.Or(report.Spec.Note, "reported lost")},
	}
	for _, c := range live {
		acted, named := inForce[c.Certificate]
		pending = pending || !acted
		if !named {
			r.Spec.Certificates = append(r.Spec.Certificates, clusterapi.RevokedCertificate{Fingerprint: c.Certificate,
				Key: c.Key, NotAfter: &c.NotAfter})
		}
	}
	if len(r.Spec.Certificates) > 0 {
		err = l.Objects.Create(ctx, r)
	}
	return pending, err
}

// revokes tells whether a Revocation keeps a certificate from writing, and its key from another one, until it ends. The
// help desk may give theirs any name, and any end.
func revokes(spec clusterapi.RevocationSpec, c clusterapi.TokenCertificate) bool {
	return slices.ContainsFunc(spec.Certificates, func(r clusterapi.RevokedCertificate) bool {
		return r.Fingerprint == c.Certificate && r.Key == c.Key && (r.NotAfter == nil || !r.NotAfter.Before(&c.NotAfter))
	})
}

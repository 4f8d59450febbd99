package approver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// again is when a request that waits for a person is judged once more: what it lacked
// may be there, such as a role binding that is gone.
const again = 5 * time.Minute

// rosterWorkers write on the roster what was issued. They are few, so that decisions, which
// people wait for, come first.
const rosterWorkers = 2

// Requests decides on requests.
type Requests struct {
	// Cache has what [Index] and [Stub] made; API reads past it; Objects writes.
	Cache   client.Reader
	API     client.Reader
	Objects client.Client
	// Informers are those of the cache.
	Informers *Informers
	// Events tells of what waits for a person.
	Events  events.EventRecorder
	Metrics *Metrics

	policies reading // reading of the policy past the cache

	mu      sync.Mutex
	version string // resource version of the judge's policy
	judge   *judge.Judge
	policy  clusterapi.PolicySpec
}

// Start has the manager run it, with so many workers. The queues have names, not a [reconcile.Request], which takes
// twice the room: thousands of requests may wait.
func (r *Requests) Start(mgr ctrl.Manager, workers int) error {
	names := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []string {
		return []string{o.GetName()}
	})
	err := builder.TypedControllerManagedBy[string](mgr).
		Watches(&certificatesv1.CertificateSigningRequest{}, names, builder.WithPredicates(predicate.Or(in(csr.Issued), in(csr.Failed)), changed)).
		// A queue without priorities takes a third of the memory. Nobody waits for the roster.
		WithOptions(controller.TypedOptions[string]{MaxConcurrentReconciles: rosterWorkers, UsePriorityQueue: new(bool)}).
		Named("roster").WithLogConstructor(logs(mgr, "roster")).
		Complete(reconcile.TypedFunc[string](func(ctx context.Context, name string) (reconcile.Result, error) {
			return r.result(ctx, r.issued(ctx, name))
		}))
	if err != nil {
		return err
	}
	err = builder.TypedControllerManagedBy[string](mgr).
		Watches(&clusterapi.EnrollmentPolicy{}, names, builder.WithPredicates(changed)).
		Named("policy").WithLogConstructor(logs(mgr, "policy")).
		Complete(reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
			return r.result(ctx, r.policyStatus(ctx))
		}))
	if err != nil {
		return err
	}
	all := handler.TypedEnqueueRequestsFromMapFunc(r.allPending)
	said := builder.WithPredicates(predicate.GenerationChangedPredicate{},
		predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }})
	return builder.TypedControllerManagedBy[string](mgr).
		Watches(&certificatesv1.CertificateSigningRequest{}, names, builder.WithPredicates(in(csr.Pending), changed)).
		Watches(&clusterapi.RequestReview{}, handler.TypedEnqueueRequestsFromMapFunc(reviewed), said).
		Watches(&clusterapi.HardwareToken{}, handler.TypedEnqueueRequestsFromMapFunc(r.pendingFor), said).
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicy{}, all, said).
		Watches(&clusterapi.Revocation{}, all, said).
		Watches(&clusterapi.EnrollmentPolicy{}, all, builder.WithPredicates(changed)).
		WithOptions(controller.TypedOptions[string]{MaxConcurrentReconciles: workers}).
		Named("requests").WithLogConstructor(logs(mgr, "requests")).Complete(r)
}

// logs has what a controller logs name the request.
func logs(mgr ctrl.Manager, controller string) func(*string) logr.Logger {
	return func(name *string) logr.Logger {
		l := mgr.GetLogger().WithValues("controller", controller)
		if name != nil {
			l = l.WithValues("name", *name)
		}
		return l
	}
}

// in is for requests to the signer of clients that are in this state.
func in(state csr.State) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		obj, ok := o.(*certificatesv1.CertificateSigningRequest)
		return ok && is(obj, state)
	})
}

// changed passes over what was read again and is the same, as all is after the API server's restart: what the
// approver has failed at is in its queue.
var changed = predicate.ResourceVersionChangedPredicate{}

func is(obj *certificatesv1.CertificateSigningRequest, state csr.State) bool {
	return obj.Spec.SignerName == csr.ClientSigner && csr.StateOf(obj).State == state
}

// pendingFor are the requests that wait for what the roster says of a token.
func (r *Requests) pendingFor(ctx context.Context, token client.Object) (names []string) {
	var list clusterapi.RequestReviewList
	if err := r.Cache.List(ctx, &list, client.InNamespace(clusterapi.Namespace),
		client.MatchingFields{byToken: bucket(token.GetName())}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list reviews in the cache")
		return nil
	}
	for i := range list.Items {
		if review := &list.Items[i]; review.Status.Token == token.GetName() {
			names = append(names, reviewed(ctx, review)...)
		}
	}
	return names
}

// allPending are all requests that wait.
func (r *Requests) allPending(ctx context.Context, _ client.Object) (names []string) {
	none := &certificatesv1.CertificateSigningRequest{} // asked for after the cache is filled
	if err := r.Cache.Get(ctx, types.NamespacedName{Name: "none"}, none); client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(err, "list requests in the cache")
		return nil
	}
	for _, o := range r.Informers.requests.List() {
		if obj, ok := o.(*certificatesv1.CertificateSigningRequest); ok && is(obj, csr.Pending) {
			names = append(names, obj.Name)
		}
	}
	return names
}

// Reconcile implements [reconcile.TypedReconciler]: it looks at one request.
func (r *Requests) Reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	return r.result(ctx, r.reconcile(ctx, name))
}

func (r *Requests) result(ctx context.Context, err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, errWaits):
		return reconcile.Result{RequeueAfter: again}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), errors.Is(err, errBehind):
		// The cache is behind: the next look sees it.
		log.FromContext(ctx).V(1).Info("changed meanwhile", "error", err.Error())
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	case errors.Is(err, errUnproven):
		log.FromContext(ctx).V(1).Info("nothing to write", "error", err.Error())
		return reconcile.Result{}, nil
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("%s: %w", Outdated, err)
	}
	return reconcile.Result{}, err
}

// Outdated is what to do where the API server refuses the approver, as it does for a moment after its own start, too.
const Outdated = "the API server refuses the approver: if that goes on, apply the manifests of the approver's version"

// errWaits: a person is to decide.
var errWaits = errors.New("waits for a person")

func (r *Requests) reconcile(ctx context.Context, name string) error {
	stub := &certificatesv1.CertificateSigningRequest{}
	err := r.Cache.Get(ctx, types.NamespacedName{Name: name}, stub)
	switch {
	case apierrors.IsNotFound(err):
		return r.forget(ctx, name)
	case err != nil || !is(stub, csr.Pending):
		return err
	}
	obj, err := r.read(ctx, stub)
	if err != nil || !is(obj, csr.Pending) {
		return client.IgnoreNotFound(err)
	}
	review, err := r.reviewOf(ctx, obj)
	if err != nil {
		return err
	}
	d, policy, err := r.decide(ctx, obj)
	if err != nil {
		return err
	}
	if d.Verdict == judge.Person && review != nil && review.Spec.Decision != nil {
		return r.byPerson(ctx, obj, review, d, policy)
	}
	switch d.Verdict {
	case judge.Approve, judge.Deny:
		if err := r.carryOut(ctx, obj, d, policy); err != nil {
			return err
		}
		r.Metrics.decisions.WithLabelValues(string(d.Verdict), d.Reason).Inc()
		return nil
	case judge.Person:
		if err := r.toReview(ctx, obj, review, d, ""); err != nil {
			return err
		}
		return errWaits
	}
	return nil
}

// byPerson carries out what a person has decided on a request that d leaves to one. What the approver or the API
// server refuses is over: it must not be approved when what spoke against it is gone for a moment.
func (r *Requests) byPerson(ctx context.Context, obj *certificatesv1.CertificateSigningRequest,
	review *clusterapi.RequestReview, d judge.Decision, policy string) error {
	var now clusterapi.RequestReview
	if err := r.API.Get(ctx, client.ObjectKeyFromObject(review), &now); client.IgnoreNotFound(err) != nil {
		return err
	}
	if now.UID != review.UID || now.DeletionTimestamp != nil { // the decision has ended
		return fmt.Errorf("the review: %w", errBehind)
	}
	asked, err := judge.Read(obj)
	if err != nil {
		asked.Object = obj // the request cannot be read: a person may still deny it
	}
	ratified := d.Ratify(*review.Spec.Decision, asked)
	refused := ratified.Message
	if ratified.Verdict != judge.Person {
		err := r.carryOut(ctx, obj, ratified, policy)
		if ratified.Verdict == judge.Deny || !refusedForGood(err) {
			if err == nil {
				r.Metrics.decisions.WithLabelValues(string(ratified.Verdict), judge.ReasonPerson).Inc()
			}
			return err
		}
		ratified, refused = d, "the API server refused the approval: "+err.Error()
	}
	if err := r.toReview(ctx, obj, review, ratified, refused); err != nil {
		return err
	}
	return errWaits
}

// refusedForGood reports whether the API server has refused what was asked for, by rights or by admission, and not because
// of the moment.
func refusedForGood(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsConflict(err) &&
		!apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsTimeout(err) &&
		!apierrors.IsUnauthorized(err)
}

// read is the whole request. The API server has it in memory: nothing older than the stub.
func (r *Requests) read(ctx context.Context, stub *certificatesv1.CertificateSigningRequest) (
	*certificatesv1.CertificateSigningRequest, error) {
	obj := &certificatesv1.CertificateSigningRequest{}
	return obj, r.API.Get(ctx, client.ObjectKeyFromObject(stub), obj,
		&client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: stub.ResourceVersion}})
}

// decide judges a request by the policy of the moment, of which it returns the version.
func (r *Requests) decide(ctx context.Context, obj *certificatesv1.CertificateSigningRequest) (d judge.Decision,
	policy string, err error) {
	j, policy, broken, err := r.byPolicy(ctx)
	d = judge.Decision{Verdict: judge.Person, Reason: judge.ReasonNoPolicy, AdminOnly: true,
		Message: broken + ": nothing is approved"}
	if j != nil {
		d, err = j.Decide(obj, r.facts(ctx), time.Now())
	}
	if err == nil {
		d, err = d.Bounded(obj, r.facts(ctx))
	}
	return d, policy, err
}

// byPolicy is the judge by the policy of the moment, whose version it is; nil, and why, if there is none.
func (r *Requests) byPolicy(ctx context.Context) (j *judge.Judge, version, broken string, err error) {
	var p clusterapi.EnrollmentPolicy
	err = r.Cache.Get(ctx, policyName, &p)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", "there is no EnrollmentPolicy named " + clusterapi.PolicyName, nil
	case err != nil:
		return nil, "", "", err
	}
	j, broken = r.judgeBy(p)
	return j, p.ResourceVersion, broken, nil
}

// policyStatus says in the policy's status why nothing is approved by it.
func (r *Requests) policyStatus(ctx context.Context) error {
	var p clusterapi.EnrollmentPolicy
	if err := r.Cache.Get(ctx, policyName, &p); err != nil {
		return client.IgnoreNotFound(err)
	}
	_, problem := r.judgeBy(p)
	if p.Status.Problem == problem {
		return nil
	}
	p.Status.Problem = problem
	return r.Objects.Status().Update(ctx, &p)
}

var policyName = types.NamespacedName{Namespace: clusterapi.Namespace, Name: clusterapi.PolicyName}

// errBehind: the cache was behind when the request was judged.
var errBehind = errors.New("judged by what is no longer so")

// samePolicy returns [errBehind] if the policy has changed since the judgement.
func (r *Requests) samePolicy(ctx context.Context, judged string) error {
	now, err := r.policies.share(func() (string, error) {
		var p clusterapi.EnrollmentPolicy
		err := r.API.Get(ctx, policyName, &p)
		return p.ResourceVersion, client.IgnoreNotFound(err)
	})
	if err == nil && now != judged {
		err = fmt.Errorf("the policy: %w", errBehind)
	}
	return err
}

// sameToken returns [errBehind] if the token by which d approves has changed since the judgement.
func (r *Requests) sameToken(ctx context.Context, d judge.Decision) error {
	var name, judged string
	switch {
	case d.Token != nil:
		name, judged = d.Token.Name, d.Token.ResourceVersion
	case d.Statement != nil && d.Statement.Serial != "":
		name = d.Statement.Serial // the token was not on the roster
	default:
		return nil
	}
	var t clusterapi.HardwareToken
	err := r.API.Get(ctx, types.NamespacedName{Namespace: clusterapi.Namespace, Name: name}, &t)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if t.ResourceVersion != judged {
		return fmt.Errorf("the token %s: %w", name, errBehind)
	}
	return nil
}

// judgeBy returns the judge by the policy p, or nil and why p cannot be read.
func (r *Requests) judgeBy(p clusterapi.EnrollmentPolicy) (j *judge.Judge, broken string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.version == p.ResourceVersion {
		return r.judge, ""
	}
	j, err := judge.New(p.Spec)
	if err != nil {
		return nil, err.Error()
	}
	r.judge, r.version, r.policy = j, p.ResourceVersion, p.Spec
	return j, ""
}

// carryOut approves or denies the request that obj was read as. It approves by what is still so.
func (r *Requests) carryOut(ctx context.Context, obj *certificatesv1.CertificateSigningRequest, d judge.Decision,
	policy string) error {
	decided := certificatesv1.CertificateDenied
	if d.Verdict == judge.Approve {
		decided = certificatesv1.CertificateApproved
		if err := r.samePolicy(ctx, policy); err != nil {
			return err
		}
		if err := r.spend(ctx, obj, d); err != nil {
			return err
		}
		if err := r.claim(ctx, obj, d); err != nil {
			return err
		}
	}
	obj.Status.Conditions = append(obj.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: decided, Status: corev1.ConditionTrue, Reason: cmp.Or(d.Reason, judge.ReasonPerson),
		Message: csr.Brief(d.Message), LastUpdateTime: metav1.Now()})
	if err := r.Objects.SubResource("approval").Update(ctx, obj); err != nil {
		return client.IgnoreNotFound(err)
	}
	// A decision has its condition, and no Event, which would be in memory for minutes: thousands may be denied.
	r.Metrics.seconds.WithLabelValues(string(d.Verdict)).Observe(time.Since(obj.CreationTimestamp.Time).Seconds())
	return nil
}

package approver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// again is when a request that waits for a person is judged once more: what it lacked
// may be there, such as a role binding that is gone.
const again = 5 * time.Minute

// Requests decides on requests.
type Requests struct {
	// Cache has what [Index] and [Stub] made; API reads past it; Objects writes objects of ours.
	Cache   client.Reader
	API     client.Reader
	Objects client.Client
	// Client reads requests and decides on them.
	Client *csr.Client
	// Events tells of decisions.
	Events  events.EventRecorder
	Metrics *Metrics

	mu      sync.Mutex
	version string // resource version of the judge's policy
	judge   *judge.Judge
	policy  clusterapi.PolicySpec
}

// Start has the manager run it, with so many workers.
func (r *Requests) Start(mgr ctrl.Manager, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(predicate.NewPredicateFuncs(ours))).
		Watches(&clusterapi.RequestReview{}, &handler.EnqueueRequestForObject{}, // of the same name
			builder.WithPredicates(predicate.GenerationChangedPredicate{}), builder.WithPredicates(noDeletions())).
		Watches(&clusterapi.HardwareToken{}, handler.EnqueueRequestsFromMapFunc(r.pendingFor),
			builder.WithPredicates(predicate.GenerationChangedPredicate{}, noDeletions())).
		Watches(&clusterapi.EnrollmentPolicy{}, handler.EnqueueRequestsFromMapFunc(r.allPending)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Named("requests").Complete(r)
}

// ours tells what there may be something to do for.
func ours(o client.Object) bool {
	obj, ok := o.(*certificatesv1.CertificateSigningRequest)
	state := csr.State(-1)
	if ok {
		state = csr.StateOf(obj).State
	}
	return ok && obj.Spec.SignerName == csr.ClientSigner && (state == csr.Pending || state == csr.Issued)
}

func noDeletions() predicate.Predicate {
	return predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }}
}

// pendingFor are the requests that wait for what the roster says of a token.
func (r *Requests) pendingFor(ctx context.Context, token client.Object) []reconcile.Request {
	return r.pending(ctx, client.MatchingFields{bySerial: token.GetName()})
}

func (r *Requests) allPending(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.pending(ctx)
}

func (r *Requests) pending(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	var list certificatesv1.CertificateSigningRequestList
	if err := r.Cache.List(ctx, &list, append(which, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "list requests in the cache")
		return nil
	}
	var all []reconcile.Request
	for i := range list.Items {
		if o := &list.Items[i]; ours(o) && csr.StateOf(o).State == csr.Pending {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: o.Name}})
		}
	}
	return all
}

// Reconcile looks at one request.
func (r *Requests) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	err := r.reconcile(ctx, req.Name)
	var changed *csr.ConflictError
	switch {
	case errors.Is(err, errWaits):
		return reconcile.Result{RequeueAfter: again}, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), errors.As(err, &changed), errors.Is(err, errBehind):
		// The cache is behind: the next look sees it.
		log.FromContext(ctx).V(1).Info("changed meanwhile", "error", err.Error())
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return reconcile.Result{}, err
}

// errWaits: a person is to decide.
var errWaits = errors.New("waits for a person")

func (r *Requests) reconcile(ctx context.Context, name string) error {
	stub := &certificatesv1.CertificateSigningRequest{}
	err := r.Cache.Get(ctx, types.NamespacedName{Name: name}, stub)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case csr.StateOf(stub).State == csr.Issued:
		return r.issued(ctx, stub)
	}
	obj, err := r.Client.Get(ctx, name)
	if errors.Is(err, csr.ErrNotFound) {
		return nil
	}
	if err != nil || !ours(obj) || csr.StateOf(obj).State != csr.Pending {
		return err
	}
	review, err := r.reviewOf(ctx, obj)
	if err != nil {
		return err
	}
	d, policy, err := r.decide(ctx, obj)
	if err != nil {
		return err
	}
	if review != nil && review.Spec.Decision != nil {
		asked, err := judge.Read(obj)
		if err != nil {
			asked.Object = obj // the request cannot be read: a person may still deny it
		}
		waits := d.Verdict == judge.Person
		if d = d.Ratify(*review.Spec.Decision, asked); waits && d.Verdict != judge.Person {
			r.Metrics.decisions.WithLabelValues(string(d.Verdict), judge.ReasonPerson).Inc()
			return r.carryOut(ctx, obj, d, policy)
		}
	}
	switch d.Verdict {
	case judge.Approve, judge.Deny:
		if err := r.carryOut(ctx, obj, d, policy); err != nil {
			return err
		}
		r.Metrics.decisions.WithLabelValues(string(d.Verdict), d.Reason).Inc()
		return nil
	case judge.Person:
		if err := r.toReview(ctx, obj, review, d); err != nil {
			return err
		}
		return errWaits
	}
	return nil
}

// decide judges a request by the policy of the moment, of which it returns the version.
func (r *Requests) decide(
	ctx context.Context,
	obj *certificatesv1.CertificateSigningRequest,
) (d judge.Decision, policy string,
	err error) {
	d = judge.Decision{Verdict: judge.Person, Reason: judge.ReasonNoPolicy, AdminOnly: true}
	var p clusterapi.EnrollmentPolicy
	err = r.Cache.Get(ctx, policyName, &p)
	switch {
	case apierrors.IsNotFound(err):
		d.Message = "there is no EnrollmentPolicy named " + clusterapi.PolicyName + ": nothing is approved"
		return d, "", nil
	case err != nil:
		return d, "", err
	}
	j, broken := r.judgeBy(p)
	if j == nil {
		d.Message = broken + ": nothing is approved"
		return d, "", nil
	}
	d, err = j.Decide(obj, facts{ctx, r.Cache}, time.Now())
	return d, p.ResourceVersion, err
}

var policyName = types.NamespacedName{Namespace: clusterapi.Namespace, Name: clusterapi.PolicyName}

// errBehind: the cache was behind when the request was judged.
var errBehind = errors.New("judged by what is no longer so")

// stillSo is [errBehind] if the policy or the token, by which d approves, is another meanwhile.
func (r *Requests) stillSo(ctx context.Context, d judge.Decision, policy string) error {
	var p clusterapi.EnrollmentPolicy
	if err := r.API.Get(ctx, policyName, &p); client.IgnoreNotFound(err) != nil {
		return err
	}
	if p.ResourceVersion != policy {
		return fmt.Errorf("the policy: %w", errBehind)
	}
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
	decide, kind := r.Client.Deny, corev1.EventTypeWarning
	if d.Verdict == judge.Approve {
		if err := r.stillSo(ctx, d, policy); err != nil {
			return err
		}
		if err := r.claim(ctx, obj, d); err != nil {
			return err
		}
		decide, kind = r.Client.Approve, corev1.EventTypeNormal
	}
	if _, err := decide(ctx, obj, csr.Decision{Reason: d.Reason, Message: csr.Brief(d.Message)}); err != nil {
		return err
	}
	reason := cmp.Or(d.Reason, judge.ReasonPerson)
	r.Events.Eventf(obj, nil, kind, reason, string(d.Verdict), "%s", csr.Brief(d.Message))
	r.Metrics.seconds.WithLabelValues(string(d.Verdict)).Observe(time.Since(obj.CreationTimestamp.Time).Seconds())
	return nil
}

// claim writes on the roster what the request is about to be approved for: whose the
// token is, and that the ticket is used.
func (r *Requests) claim(ctx context.Context, obj *certificatesv1.CertificateSigningRequest, d judge.Decision) error {
	if d.Statement == nil || d.Statement.Serial == "" || d.Token == nil && d.Terms == nil {
		return nil
	}
	token := &clusterapi.HardwareToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterapi.Namespace, Name: d.Statement.Serial},
	}
	if d.Token != nil {
		token = d.Token.DeepCopy()
	}
	old := token.DeepCopy()
	token.Spec.State = clusterapi.Active
	if d.Terms != nil {
		token.Spec.Owner, token.Spec.Groups = d.Terms.User, d.Terms.Groups
		r.mu.Lock()
		horizon := r.policy.Horizon.Duration
		r.mu.Unlock()
		if horizon > 0 && token.Spec.Horizon == nil {
			token.Spec.Horizon = &metav1.Time{Time: time.Now().Add(horizon).Truncate(time.Second)}
		}
	}
	var err error
	switch {
	case d.Token == nil:
		err = r.Objects.Create(ctx, token)
	case !sameSpec(old.Spec, token.Spec):
		err = r.Objects.Update(ctx, token)
	}
	if err != nil {
		return fmt.Errorf("write the token %s on the roster: %w", token.Name, err)
	}
	info, err := csr.InspectRequest(obj.Spec.Request)
	if err != nil {
		return err
	}
	status := old.Status.DeepCopy()
	status.Key, status.Model, status.Firmware = info.SPKIHash, d.Statement.Model, d.Statement.Firmware
	status.PIN, status.Touch = d.Statement.PIN.String(), d.Statement.Touch.String()
	if d.Ticket != "" &&
		!slices.ContainsFunc(status.Tickets, func(u clusterapi.UsedTicket) bool { return u.ID == d.Ticket }) {
		status.Tickets = slices.DeleteFunc(status.Tickets, func(u clusterapi.UsedTicket) bool {
			return time.Since(u.Time.Time) > 2*ticket.MaxTTL
		})
		status.Tickets = append(status.Tickets, clusterapi.UsedTicket{ID: d.Ticket, Request: obj.UID, Time: metav1.Now()})
	} else if sameDevice(old.Status, *status) {
		return nil
	}
	token.Status = *status
	if err := r.Objects.Status().Update(ctx, token); err != nil {
		return fmt.Errorf("write the use of the token %s on the roster: %w", token.Name, err)
	}
	return nil
}

func sameSpec(a, b clusterapi.TokenSpec) bool {
	return a.Owner == b.Owner && slices.Equal(a.Groups, b.Groups) && a.State == b.State && a.Horizon.Equal(b.Horizon)
}

func sameDevice(a, b clusterapi.TokenStatus) bool {
	return a.Key == b.Key && a.Model == b.Model && a.Firmware == b.Firmware && a.PIN == b.PIN && a.Touch == b.Touch
}

// issued writes on the roster until when a token's certificate is good.
func (r *Requests) issued(ctx context.Context, stub *certificatesv1.CertificateSigningRequest) error {
	key := stub.Annotations[stubKey]
	if key == "" || stub.Annotations[stubEnd] == "" {
		return nil // no certificate of ours
	}
	end, err := time.Parse(time.RFC3339, stub.Annotations[stubEnd])
	if err != nil {
		return err
	}
	token, err := facts{ctx, r.Cache}.TokenWithKey(key)
	if err != nil || token == nil || token.Status.NotAfter != nil && !token.Status.NotAfter.Time.Before(end) {
		return err
	}
	token.Status.Certificate, token.Status.NotAfter = stub.Annotations[stubCertificate], &metav1.Time{Time: end}
	return r.Objects.Status().Update(ctx, token)
}

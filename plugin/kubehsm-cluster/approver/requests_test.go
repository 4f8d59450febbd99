package approver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/plugin/judge"
)

// stored is an API server that has objects of these names, and says their versions.
type stored struct {
	client.Reader
	versions map[string]string
}

func (s stored) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	version, ok := s.versions[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	o.SetResourceVersion(version)
	return nil
}

// Nothing is approved by a policy or an entry of the roster that has changed.
func TestStillSo(t *testing.T) {
	token := &clusterapi.HardwareToken{ObjectMeta: metav1.ObjectMeta{Name: "123", ResourceVersion: "7"}}
	proven := &attest.Statement{Serial: "123"}
	for name, c := range map[string]struct {
		d      judge.Decision
		stored map[string]string
		behind bool
	}{
		"all as it was":     {judge.Decision{Token: token}, map[string]string{clusterapi.PolicyName: "5", "123": "7"}, false},
		"another policy":    {judge.Decision{Token: token}, map[string]string{clusterapi.PolicyName: "6", "123": "7"}, true},
		"no policy":         {judge.Decision{Token: token}, map[string]string{"123": "7"}, true},
		"another token":     {judge.Decision{Token: token}, map[string]string{clusterapi.PolicyName: "5", "123": "8"}, true},
		"no token":          {judge.Decision{Token: token}, map[string]string{clusterapi.PolicyName: "5"}, true},
		"new on the roster": {judge.Decision{Statement: proven}, map[string]string{clusterapi.PolicyName: "5", "123": "8"}, true},
		"not on the roster": {judge.Decision{Statement: proven}, map[string]string{clusterapi.PolicyName: "5"}, false},
		"nothing attested":  {judge.Decision{}, map[string]string{clusterapi.PolicyName: "5"}, false},
	} {
		r := Requests{API: stored{versions: c.stored}}
		err := r.samePolicy(t.Context(), "5")
		if err == nil {
			err = r.sameToken(t.Context(), c.d)
		}
		if errors.Is(err, errBehind) != c.behind || !c.behind && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusedForGood: a decision ends where the API server refuses it, and not where it is busy.
func TestRefusedForGood(t *testing.T) {
	of := schema.GroupResource{Resource: "certificatesigningrequests"}
	for _, err := range []error{apierrors.NewForbidden(of, "x", errors.New("no right")), apierrors.NewBadRequest("a webhook"),
		apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, "x", nil)} {
		if !refusedForGood(fmt.Errorf("approve: %w", err)) {
			t.Errorf("%v does not end the decision", err)
		}
	}
	for _, err := range []error{nil, errors.New("no route"), apierrors.NewConflict(of, "x", errors.New("changed")),
		apierrors.NewNotFound(of, "x"), apierrors.NewTooManyRequests("busy", 1), apierrors.NewServerTimeout(of, "update", 1),
		apierrors.NewTimeoutError("late", 1), apierrors.NewInternalError(errors.New("etcd")), apierrors.NewUnauthorized("token")} {
		if refusedForGood(err) {
			t.Errorf("%v ends the decision", err)
		}
	}
}

// uses is a cluster without requests, which has one review.
type uses struct {
	client.Client
	review  clusterapi.RequestReview
	deleted string
}

func (u *uses) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	into, ok := o.(*clusterapi.RequestReview)
	if !ok || key.Name != u.review.Name {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	u.review.DeepCopyInto(into)
	return nil
}

func (u *uses) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	u.deleted = o.GetName()
	return nil
}

// TestForgottenTicket: which request a ticket was used for is kept for as long as a ticket may live, and no longer.
func TestForgottenTicket(t *testing.T) {
	for name, c := range map[string]struct {
		name   string
		age    time.Duration
		owners []metav1.OwnerReference
		want   error
		gone   bool
	}{
		"while tickets live": {clusterapi.TicketUse("abcdef"), 24 * time.Hour, nil, errWaits, false},
		"afterwards":         {clusterapi.TicketUse("abcdef"), 49 * time.Hour, nil, nil, true},
		"a request's review": {"jane-1", 49 * time.Hour, []metav1.OwnerReference{{Name: "jane-1"}}, nil, false},
	} {
		u := &uses{review: clusterapi.RequestReview{ObjectMeta: metav1.ObjectMeta{Name: c.name, OwnerReferences: c.owners,
			CreationTimestamp: metav1.NewTime(time.Now().Add(-c.age))}}}
		r := Requests{Cache: u, API: u, Objects: u}
		if err := r.reconcile(t.Context(), c.name); !errors.Is(err, c.want) || (u.deleted == c.name) != c.gone {
			t.Errorf("%s: %v, deleted %q", name, err, u.deleted)
		}
	}
}

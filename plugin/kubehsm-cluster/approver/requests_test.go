package approver

import (
	"context"
	"errors"
	"fmt"
	"testing"

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

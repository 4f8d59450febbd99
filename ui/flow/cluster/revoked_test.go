package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// TestRevoked: the list is read from the cluster's policies, all of them or, without the right to
// list, those with the names that the help desk may read. If the last of these is there, others
// may follow.
func TestRevoked(t *testing.T) {
	w := plain(t)
	a := cluster.Access{Env: w.Env}
	list, err := a.Revoked(t.Context(), "")
	if err != nil || len(list.Shards) != 0 {
		t.Errorf("nothing is revoked: %+v, %v", list, err)
	}
	for name, digits := range map[string]string{"1": "ab", "16": "cd"} {
		s := revocation.Shard{Name: revocation.PolicyPrefix + name,
			Entries: []revocation.Entry{{Certificate: strings.Repeat(digits, 32)}}}
		w.Server.Put("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", s.Policy())
	}
	for _, forbidden := range [][]string{nil, {"list validatingadmissionpolicies"}} {
		w.Server.Forbid(forbidden...)
		list, err := a.RevokedOf(t.Context(), kubeconfig.Rules{Explicit: w.Env.Kubeconfig}, "")
		must.OK(t, err)
		if partly := strings.Contains(fmt.Sprint(list.Shards[len(list.Shards)-1].Err),
			"you may not read the policies after kubehsm-revoked-16"); partly != (forbidden != nil) {
			t.Errorf("without the rights %q: more policies may follow: %v", forbidden, partly)
		}
		for _, digits := range []string{"ab", "cd"} {
			if _, on := list.Find(strings.Repeat(digits, 32), ""); !on {
				t.Errorf("without the rights %q: %s… is not on the list", forbidden, digits)
			}
		}
	}
	w.Server.Forbid("get validatingadmissionpolicies")
	if _, err := a.Revoked(t.Context(), ""); !apierrors.IsForbidden(err) {
		t.Errorf("without any right: %v", err)
	}
}

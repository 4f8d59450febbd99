package revocation

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/must"
)

// `make revocation-cost` measures with the numbers that people ask for.
var (
	revokedCount = flag.Int("revoked", 2000, "how many certificates are revoked when writes are measured")
	writeCount   = flag.Int("writes", 50, "how many pairs of writes are measured in each round")
	roundCount   = flag.Int("rounds", 1, "how often the two clusters change their roles")
	costBar      = flag.Float64("bar", 0, "fail if the p99 of a write is so many times that without a list; 0: never")
)

// costSide is one of two clusters.
type costSide struct {
	*controlplane.Cluster
	ledger       revocation.Ledger
	writer, lost person
}

// TestCost measures how long a write takes with a long list against none: in two clusters, write
// by write in turn, so that what else the machine does concerns both. Then they change their roles.
// The numbers are printed. What is tested without -bar is that the list stops only those on it.
func TestCost(t *testing.T) {
	var sides []costSide
	for range 2 {
		c := controlplane.StartForTest(t, controlplane.Options{NoControllers: true})
		must.OK(t, c.Apply(t.Context(), everybody))
		sides = append(sides, costSide{c, ledger(t, c), someone(t, c, "writer"), someone(t, c, "jane")})
	}
	var with, without []time.Duration
	for round := range *roundCount {
		s, other := sides[round%2], sides[1-round%2]
		s.revokeMany(t)
		for range *writeCount / 10 { // to warm up
			s.write(t)
			other.write(t)
		}
		for n := range *writeCount {
			if n%2 == 0 {
				without = append(without, other.write(t))
			}
			with = append(with, s.write(t))
			if n%2 == 1 {
				without = append(without, other.write(t))
			}
		}
		for _, kind := range []string{"validatingadmissionpolicybinding", "validatingadmissionpolicy"} {
			_, err := s.Admin(t.Context(), "", "delete", kind, "-l", revocation.Label)
			must.OK(t, err)
		}
		awaitLifted(t, s.lost)
	}
	for _, p := range []float64{0.5, 0.99} {
		a, b := percentile(without, p), percentile(with, p)
		ratio := float64(b) / float64(a)
		t.Logf("p%.0f of a write: %s without, %s with %d revoked certificates: ratio %.3f", 100*p, a, b, *revokedCount+1, ratio)
		if *costBar > 0 && p == 0.99 && ratio > *costBar {
			t.Errorf("the bar is %.2f", *costBar)
		}
	}
}

// manyWith is an entry, and n others like it.
func manyWith(one revocation.Entry, n int) []revocation.Entry {
	entries := []revocation.Entry{one}
	for i := range n {
		e := one
		e.Certificate, e.User = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, i))), fmt.Sprintf("user-%d", i)
		e.Key = e.Certificate
		entries = append(entries, e)
	}
	return entries
}

// revokeMany puts jane and many others on the list, and waits until it is in force.
func (s costSide) revokeMany(t *testing.T) {
	t.Helper()
	entries := manyWith(s.lost.entry, *revokedCount)
	admin := configFrom(t, s.AdminKubeconfig())
	began := time.Now()
	shards, err := s.ledger.Revoke(t.Context(), time.Now(), entries...)
	must.OK(t, err)
	wrote := time.Since(began)
	awaitInForce(t, admin, shards)
	t.Logf("%d entries in %d policies, written in %s, in force after %s", len(entries), len(shards), wrote, time.Since(began))
	if err := create(t.Context(), s.lost.config, "refused"); !refused(err) {
		t.Errorf("the revoked certificate: %v", err)
	}
	more := someone(t, s.Cluster, "joe")
	began = time.Now()
	shards, err = s.ledger.Revoke(t.Context(), time.Now(), more.entry)
	must.OK(t, err)
	awaitInForce(t, admin, shards)
	t.Logf("one more is in force after %s", time.Since(began))
	if err := create(t.Context(), more.config, "refused"); !refused(err) {
		t.Errorf("the other revoked certificate: %v", err)
	}
}

// write is how long a write took.
func (s costSide) write(t *testing.T) time.Duration {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": fmt.Sprintf("cost-%x", rand.Uint64())}}}
	resource := clientOf(t, s.writer.config).Resource(configMaps).Namespace("default")
	began := time.Now()
	_, err := resource.Create(t.Context(), u, metav1.CreateOptions{})
	must.OK(t, err)
	return time.Since(began)
}

func percentile(all []time.Duration, p float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, int(p*float64(len(all))))]
}

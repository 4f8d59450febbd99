package revocation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kubehsm/kubehsm/csr/revocation"
)

// `make revocation-cost` measures with the numbers that people ask for.
var (
	revokedCount = flag.Int("revoked", 2000, "how many certificates are revoked when writes are measured")
	writeCount   = flag.Int("writes", 50, "how many writes are measured in each round")
	roundCount   = flag.Int("rounds", 1, "how many rounds are measured with and without, in turn")
)

// TestCost measures how long a write takes with a long list against none. The numbers are
// printed; what is tested is that the list is in force and stops only those on it.
func TestCost(t *testing.T) {
	c := shared(t)
	l := ledger(t, c)
	admin := configFrom(t, c.AdminKubeconfig())
	writer, lost := someone(t, c, "writer"), someone(t, c, "jane")
	entries := []revocation.Entry{lost.entry}
	for n := range *revokedCount {
		e := lost.entry
		e.Certificate, e.User = fmt.Sprintf("%064x", n), fmt.Sprintf("user-%d", n)
		e.Key = e.Certificate
		entries = append(entries, e)
	}
	d := clientOf(t, writer.config)
	var with, without []time.Duration
	for range *roundCount {
		without = append(without, measured(t, d)...)
		began := time.Now()
		shards, err := l.Revoke(t.Context(), time.Now(), entries...)
		check(t, err)
		wrote := time.Since(began)
		awaitInForce(t, admin, shards)
		t.Logf("%d entries in %d policies, written in %s, in force after %s", len(entries), len(shards), wrote, time.Since(began))
		if err := create(t.Context(), lost.config, "refused"); !refused(err) {
			t.Errorf("the revoked certificate: %v", err)
		}
		with = append(with, measured(t, d)...)
		for _, kind := range []string{"validatingadmissionpolicybinding", "validatingadmissionpolicy"} {
			_, err := c.Admin(t.Context(), "", "delete", kind, "-l", revocation.Label)
			check(t, err)
		}
		awaitLifted(t, lost)
	}
	for _, p := range []float64{0.5, 0.99} {
		a, b := percentile(without, p), percentile(with, p)
		t.Logf("p%.0f of a write: %s without, %s with %d revoked certificates: ratio %.2f", 100*p, a, b, len(entries),
			float64(b)/float64(a))
	}
}

// measured is how long each of the writes took, which are of one connection.
func measured(t *testing.T, d dynamic.Interface) (all []time.Duration) {
	t.Helper()
	for range *writeCount {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": fmt.Sprintf("cost-%x", rand.Uint64())}}}
		began := time.Now()
		_, err := d.Resource(configMaps).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{})
		check(t, err)
		all = append(all, time.Since(began))
	}
	return all
}

func percentile(all []time.Duration, p float64) time.Duration {
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)-1, int(p*float64(len(all))))]
}

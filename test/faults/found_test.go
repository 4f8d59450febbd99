//go:build linux && cgo && defects

package faults

import (
	"testing"
	"time"
)

// rare are the defects that show only where a fault strikes at one of three points, and the
// next change of the kubeconfig is the right one, or the key is a new one: 200 faults have
// been too few.
var rare = map[string]bool{"the journal is written after the kubeconfig": true,
	"a key is forgotten by who makes it": true}

// TestDefectsAreFound: 200 faults find each of the defects, 1000 each of the rare ones.
func TestDefectsAreFound(t *testing.T) {
	for name, changes := range defects {
		t.Run(name, func(t *testing.T) {
			r := prepare(t, changes...)
			r.most = 1
			began, most := time.Now(), 200
			if rare[name] {
				most = 1000
			}
			struck, failures := r.run(t.Context(), number(t, "FAULTS", most))
			if len(failures) == 0 {
				t.Fatalf("%d faults have not found it", struck)
			}
			t.Logf("found by %d faults or fewer, in %s: %.300s", struck, time.Since(began).Round(time.Second), failures[0])
		})
	}
}

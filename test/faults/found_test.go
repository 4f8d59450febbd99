//go:build linux && cgo && defects

package faults

import (
	"testing"
	"time"
)

// TestDefectsAreFound: 200 faults find each of the defects.
func TestDefectsAreFound(t *testing.T) {
	for name, changes := range defects {
		t.Run(name, func(t *testing.T) {
			r := prepare(t, changes...)
			began := time.Now()
			struck, err := r.run(t.Context(), number(t, "FAULTS", 200))
			if err == nil {
				t.Fatalf("%d faults have not found it", struck)
			}
			t.Logf("found by %d faults or fewer, in %s: %.300s", struck, time.Since(began).Round(time.Second), err)
		})
	}
}

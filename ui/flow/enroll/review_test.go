package enroll

import (
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/csr"
)

// TestRemarks: a review's remarks are its notes, and of the forecast what wants attention.
func TestRemarks(t *testing.T) {
	points := []csr.Point{{ID: "a", Verdict: csr.Warn, Reason: "odd"},
		{ID: "b", Verdict: csr.Refuse, Reason: "never", Evidence: "the book"},
		{ID: "c", Verdict: csr.OK, Reason: "fine"}}
	if notes := strings.Join(Review{Notes: []string{"n"}, Forecast: points}.Remarks(),
		"\n"); notes != "n\nodd\nthis will be refused: never" {
		t.Errorf("remarks: %q", notes)
	}
}

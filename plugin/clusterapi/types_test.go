package clusterapi

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestReviewNames: no two requests have a review of the same name, and none has that of a ticket's use.
func TestReviewNames(t *testing.T) {
	requests := []string{"jane-1", "Jane's laptop", ReviewName("Jane's laptop"), ReviewName(ReviewName("Jane's laptop")),
		TicketUse("abcdef"), strings.Repeat("x", 300), strings.Repeat("x", 301)}
	seen := map[string]string{}
	for _, request := range requests {
		name := ReviewName(request)
		if other, twice := seen[name]; twice || name == TicketUse("abcdef") || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("the review of %q is %s, like that of %q", request, name, other)
		}
		seen[name] = request
	}
	if ReviewName("jane-1") != "jane-1" {
		t.Error("a name that a review may have is not kept")
	}
}

package status

import (
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// TestWarning: a warning keeps its words; only line ends are replaced.
func TestWarning(t *testing.T) {
	warnings, errs := utilnet.ParseWarningHeaders([]string{warning("a \"b\" \\ c\nd")})
	if len(errs) > 0 || len(warnings) != 1 || warnings[0].Text != `a "b" \ c d` {
		t.Errorf("%v %v", warnings, errs)
	}
}

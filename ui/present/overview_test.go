package present

import (
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow/enroll"
	"github.com/kubehsm/kubehsm/ui/flow/overview"
)

// TestOverviewShort: one clean line, which names the certificate of the current context alone.
func TestOverviewShort(t *testing.T) {
	now := time.Now()
	ends := func(left time.Duration, due bool) []enroll.Expiring {
		return []enroll.Expiring{{Name: "other", Due: true}, {Name: "prod-hsm", NotAfter: now.Add(left), Due: due}}
	}
	of := overview.Status{Context: "prod\x1b[31m", Enrollment: "prod-hsm", Lock: overview.Unlocked}
	for want, s := range map[string]func(*overview.Status){
		"":                      func(s *overview.Status) { s.Enrollment = "" },
		`prod\x1b[31m unlocked`: func(s *overview.Status) { s.Certificates = ends(1000*time.Hour, false) },
		`prod\x1b[31m locked, renew in 5h !`: func(s *overview.Status) {
			s.Lock, s.Certificates, s.Problems = overview.Locked, ends(5*time.Hour+time.Second, true), []string{"x"}
		},
		`prod\x1b[31m unlocked, expired`: func(s *overview.Status) { s.Certificates = ends(-time.Hour, true) },
	} {
		o := of
		s(&o)
		if got := OverviewShort(o, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

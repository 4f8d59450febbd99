package present

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
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

// TestOverviewTells: what waits for a person and that a second terminal UI is open are told, and
// nothing of it reaches a terminal raw.
func TestOverviewTells(t *testing.T) {
	now := time.Now()
	s := overview.Status{
		Context:    "prod",
		Enrollment: "prod-hsm",
		Lock:       overview.Unlocked,
		Until:      now.Add(10*time.Minute + time.Second),
		Interfaces: 2,
		Asked:      []ask.Wait{{For: ask.ForPIN, Kind: "PIV PIN", Token: "my\x1b[31m"}},
		Requests:   []message.ConsentStatus{{Enrollment: "prod-hsm", Request: "delete pods\x07"}},
		Problems:   []string{"the log\x1b[2J is full"},
	}
	var all []string
	for _, section := range Overview(s, now) {
		for _, l := range section.Lines {
			all = append(all, l.Words)
		}
		for _, f := range section.Facts {
			all = append(all, f.Value)
		}
	}
	said := strings.Join(all, "\n")
	for _, want := range []string{`the PIV PIN of "my\x1b[31m" is being asked for`, "prod-hsm waits for consent: delete pods",
		"2 open", "unlocked, 10 min more if not used"} {
		if !strings.Contains(said, want) {
			t.Errorf("not told: %s, in\n%s", want, said)
		}
	}
	if strings.ContainsAny(said, "\x1b\x07") {
		t.Errorf("raw: %q", said)
	}
	if said := LockBrief(s, now); said != "unlocked 10 min" {
		t.Error(said)
	}
}

// TestEnds: a certificate that has ended is bad, and one that cannot be read is.
func TestEnds(t *testing.T) {
	now := time.Now()
	for want, c := range map[string]enroll.Expiring{
		"cannot be read":        {Err: errors.New("x"), NotAfter: now.Add(time.Hour)},
		"expired":               {NotAfter: now, Due: true},
		"ends in 5 h: renew it": {NotAfter: now.Add(5*time.Hour + time.Second), Due: true},
		"ends in 100 d":         {NotAfter: now.Add(2400*time.Hour + time.Second)},
	} {
		if got := Ends(c, now); got.Words != want {
			t.Errorf("%q, want %q", got.Words, want)
		}
	}
}

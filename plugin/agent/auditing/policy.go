package auditing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// Policies holds what the audit log records of the enrollments' consent policies. The
// log is read with the first enrollment, and again when an enrollment's policy differs
// from the one that is known.
type Policies struct {
	Store     enrollment.Store // all enrollments
	Records   *Records
	Notify    *desktop.Notifier
	Log       *slog.Logger
	OnLowered func(key hsm.URI) // callback for a policy of that key that was lowered

	mu    sync.Mutex
	read  bool
	known map[string]*audit.PolicyState
}

// Of returns the policy in force for the key of e, the strictest of all
// enrollments with the key, and the other enrollments with the key. A policy that differs
// from the audit log goes on record, and the next prompt tells of the change. kubehsm
// asks for the PIN before it lowers a policy: where another program lowered one, the
// token is locked, so that this prompt comes at once.
func (s *Policies) Of(e enrollment.Enrollment) (p consent.Policy, others []enrollment.Enrollment) {
	all, err := s.Store.List()
	if err != nil { // an enrollment that cannot be read is not served; its policy is missed below
		s.Log.Warn("enrollments", "error", err)
	}
	found := map[string]consent.Policy{e.Name: e.Consent()}
	p = e.Consent()
	for _, other := range all {
		if other.KeyHash == e.KeyHash && other.Name != e.Name {
			others = append(others, other)
			found[other.Name] = other.Consent()
			p = consent.Strictest(p, other.Consent())
		}
	}
	if s.follow(e, p, found) {
		s.OnLowered(e.Key)
	}
	return p, others
}

// follow records the changes in the policies of e's key, and reports whether one was
// lowered.
func (s *Policies) follow(e enrollment.Enrollment, p consent.Policy, found map[string]consent.Policy) (lowered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.changes(e, p, found)
	if len(changes) > 0 || !s.read { // a kubehsm command may have recorded the change
		s.readLog()
		changes = s.changes(e, p, found)
	}
	for _, r := range changes {
		audit.Follow(s.known, r)
		s.Records.Write(r)
		if r.Lowered {
			lowered = true
			s.Notify.Say(r.Sentence())
		}
	}
	return lowered
}

// readLog reads the audit log. Without a log in this process, as in some tests,
// every policy is new. The caller holds s.mu.
func (s *Policies) readLog() {
	s.read = true
	if s.known == nil {
		s.known = map[string]*audit.PolicyState{}
	}
	known, err := s.Records.policies(context.Background())
	if err != nil || known == nil {
		return // the agent's status tells of an error
	}
	for name, was := range s.known { // a log that was removed meanwhile must not lose the known policies
		if known[name] == nil {
			known[name] = was
		}
	}
	s.known = known
	s.Records.carry(known)
}

// changes returns what differs between the policies of e's key, found, and the
// known ones. The caller holds s.mu.
func (s *Policies) changes(e enrollment.Enrollment, inForce consent.Policy,
	found map[string]consent.Policy) (changes []audit.Record) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	change := func(name string, r audit.Record) {
		r.Time, r.Event, r.Enrollment, r.Key, r.Token = now, audit.Policy, name, e.KeyHash, Public(e.Key)
		changes = append(changes, r)
	}
	for name, p := range found {
		known := s.known[name]
		switch {
		case known == nil || known.Last.Reason == "":
			change(name, audit.Record{Reason: audit.PolicyFirst, Policy: p.String()})
		case known.Gone(), known.Last.Policy != p.String(), known.Last.Key != e.KeyHash:
			was := cmp.Or(known.Last.Policy, known.Last.Was)
			change(name, audit.Record{Reason: audit.PolicyFound, Was: was, Policy: p.String(),
				Lowered: !p.Covers(consent.ParsePolicy(was))})
		}
	}
	for name, known := range s.known {
		if _, there := found[name]; !there && known.Last.Key == e.KeyHash && known.Last.Reason != "" && !known.Gone() {
			change(name, audit.Record{Reason: audit.PolicyGone, Was: known.Last.Policy,
				Lowered: !inForce.Covers(consent.ParsePolicy(known.Last.Policy))})
		}
	}
	return changes
}

// Notice returns the policy changes that the next question about token has to tell, and
// seen, a function to call when the person has answered.
func (s *Policies) Notice(token hsm.URI) (sentences string, seen func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := Public(token).String()
	var changes []audit.Record
	for _, known := range s.known {
		for _, r := range known.Untold {
			if r.Token.String() == name {
				changes = append(changes, r)
			}
		}
	}
	if len(changes) == 0 {
		return "", func() {}
	}
	slices.SortFunc(changes, func(x, y audit.Record) int { return x.Time.Compare(y.Time) })
	var lines []string
	if more := len(changes) - maxNotices; more > 0 {
		lines = append(lines, fmt.Sprintf("There were %d more changes of consent policies; `kubehsm audit` shows each.",
			more))
	}
	for _, r := range changes[max(0, len(changes)-maxNotices):] {
		lines = append(lines, r.Sentence())
	}
	return strings.Join(lines, " "), sync.OnceFunc(func() { s.seen(changes) })
}

// maxNotices is how many changes one prompt tells: the latest ones.
const maxNotices = 3

// seen records that a person was told of changes.
func (s *Policies) seen(changes []audit.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := map[string]bool{}
	for _, r := range changes {
		known := s.known[r.Enrollment]
		if done[r.Enrollment] || known == nil {
			continue
		}
		done[r.Enrollment] = true
		if n := len(known.Untold); n > 0 && known.Untold[n-1].Time.After(changes[len(changes)-1].Time) {
			continue // a later change is still untold
		}
		r := audit.Record{Event: audit.Policy, Reason: audit.PolicyTold, Enrollment: r.Enrollment, Key: r.Key, Token: r.Token}
		audit.Follow(s.known, r)
		s.Records.Write(r)
	}
}

package auditing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
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

// Policies holds what the audit log records of consent policies. The log is read with
// the first enrollment, and again when a policy differs from the one that is known.
type Policies struct {
	Store     enrollment.Store // all enrollments
	Records   *Records
	Notify    *desktop.Notifier
	Log       *slog.Logger
	OnLowered func(key hsm.URI) // callback for a policy of that key that was lowered

	mu       sync.Mutex
	read     bool
	known    *audit.Known
	problems map[string]audit.Problem // problems of records that are on record, by the key's hash
}

// Of returns the policy in force for the key of e: the strictest of its record, of what
// the audit log says where the record does not count, and of all enrollments with the key. Where e has
// spares or is one, it is the strictest of all their keys. Of returns the other enrollments with
// these keys too. A policy that differs from the audit log goes on record, and the next prompt tells
// of the change. kubehsm asks for the PIN before it lowers a policy: where another program lowered
// one, the token is locked, so that this prompt comes at once.
func (s *Policies) Of(e enrollment.Enrollment) (p consent.Policy, others []enrollment.Enrollment) {
	p, others, lowered := s.of(e)
	if lowered {
		s.OnLowered(e.Key)
	}
	family, err := s.Store.Family(e)
	if err != nil {
		s.Log.Warn("enrollments", "error", err)
	}
	for _, f := range family {
		if f.KeyHash == e.KeyHash {
			continue // e itself
		}
		of, more, lowered := s.of(f)
		if lowered {
			s.OnLowered(f.Key)
		}
		p, others = consent.Strictest(p, of), append(append(others, f), more...)
	}
	return p, others
}

func (s *Policies) of(e enrollment.Enrollment) (p consent.Policy, others []enrollment.Enrollment, lowered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.stored(e)
	if !s.read {
		s.readLog()
	}
	before := s.problems[e.KeyHash]
	standing, changes := s.changes(now)
	// A newer version took the place of a record that did not count. The log tells of it.
	mended := before != audit.NoProblem && standing.Problem == audit.NoProblem
	// A kubehsm command may have recorded the change, or be about to end it.
	if len(changes) > 0 || mended {
		release := s.settled(e.KeyHash)
		now = s.stored(e)
		s.readLog()
		standing, changes = s.changes(now)
		release()
	}
	for _, r := range changes {
		s.known.Follow(r)
		s.Records.Write(r)
		if r.Lowered || r.Reason == audit.PolicyRecord {
			s.Notify.Say(r.Sentence())
		}
		lowered = lowered || r.Lowered
	}
	s.problems[e.KeyHash] = standing.Problem
	return consent.Strictest(now.own, standing.Policy), now.others, lowered
}

// stored is what the store has of a key's policy.
type stored struct {
	e      enrollment.Enrollment
	others []enrollment.Enrollment   // other enrollments of the key
	found  map[string]consent.Policy // policies of all enrollments of the key
	own    consent.Policy            // policy of all enrollments together
	signed consent.Signed            // record of the key's policy
	err    error                     // reason why the record cannot be read
}

func (s *Policies) stored(e enrollment.Enrollment) stored {
	now := stored{e: e, found: map[string]consent.Policy{e.Name: e.Consent()}}
	all, err := s.Store.OfKey(e.KeyHash)
	if err != nil { // an enrollment that cannot be read is not served; its policy is missed below
		s.Log.Warn("enrollments", "error", err)
	}
	for _, other := range all {
		now.found[other.Name] = other.Consent() // e's too: it may have been written since
		if other.Name != e.Name {
			now.others = append(now.others, other)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.found)) { // in order: targets are compared
		now.own = consent.Strictest(now.own, now.found[name])
	}
	now.signed, now.err = s.Store.Policy(e.KeyHash)
	return now
}

// settleTimeout bounds the wait for a command that is writing a policy.
const settleTimeout = 2 * time.Second

// settled waits until no command is writing the policy of the key with that hash, and keeps
// further ones away until release is called.
func (s *Policies) settled(hash string) (release func()) {
	lock, err := s.Store.LockPolicy(hash)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		defer cancel()
		_, err = lock.TryLockContext(ctx, 20*time.Millisecond)
	}
	if err != nil { // Without a record, what is found is put on record.
		s.Log.Warn("consent policy", "error", err)
		return func() {}
	}
	return func() { _ = lock.Close() } // the lock goes with its file
}

// readLog reads the audit log. Without a log in this process, as in some tests,
// every policy is new. The caller holds s.mu.
func (s *Policies) readLog() {
	s.read = true
	if s.known == nil {
		s.known, s.problems = audit.NewKnown(), map[string]audit.Problem{}
	}
	known, err := s.Records.policies(context.Background(), s.known)
	if err != nil || known == nil {
		return // the agent's status tells of an error
	}
	for name, was := range s.known.Enrollments { // a log that was removed meanwhile must not lose the known policies
		if known.Enrollments[name] == nil {
			known.Enrollments[name] = was
		}
	}
	s.known = known
	s.Records.carry(known)
	for hash, k := range known.Keys {
		if k.Version.Number > 0 && !k.InLog { // an older log, or another one, is in its place
			s.Records.Write(k.Record(hash))
			k.InLog = true
		}
	}
}

// changes returns what counts by the record of a key, and what differs between the stored
// policies and the known ones. The caller holds s.mu.
func (s *Policies) changes(of stored) (standing audit.Standing, changes []audit.Record) {
	e := of.e
	standing = s.known.Judge(e.KeyHash, of.signed, of.err)
	inForce := consent.Strictest(of.own, standing.Policy)
	now := time.Now().UTC().Truncate(time.Microsecond)
	change := func(name string, r audit.Record) {
		r.Time, r.Event, r.Enrollment, r.Key, r.Token = now, audit.Policy, name, e.KeyHash, Public(e.Key)
		changes = append(changes, r)
	}
	if standing.Problem != audit.NoProblem && standing.Problem != s.problems[e.KeyHash] {
		change(e.Name, audit.Record{Reason: audit.PolicyRecord, Error: string(standing.Problem),
			Policy: inForce.String()})
	}
	for name, own := range of.found {
		known := s.known.Enrollments[name]
		switch {
		case known == nil || known.Last.Reason == "":
			change(name, audit.Record{Reason: audit.PolicyFirst, Policy: own.String()})
		case known.Gone(), known.Last.Policy != own.String(), known.Last.Key != e.KeyHash:
			was := cmp.Or(known.Last.Policy, known.Last.Was)
			change(name, audit.Record{Reason: audit.PolicyFound, Was: was, Policy: own.String(),
				Lowered: !consent.Strictest(own, standing.Policy).Covers(consent.ParsePolicy(was))})
		}
	}
	for name, known := range s.known.Enrollments {
		if _, there := of.found[name]; !there && known.Last.Key == e.KeyHash && known.Last.Reason != "" &&
			!known.Gone() {
			change(name, audit.Record{Reason: audit.PolicyGone, Was: known.Last.Policy,
				Lowered: !inForce.Covers(consent.ParsePolicy(known.Last.Policy))})
		}
	}
	return standing, changes
}

// Notice returns the policy changes that the next question about token has to tell, and
// seen, a function to call when the person has answered.
func (s *Policies) Notice(token hsm.URI) (sentences string, seen func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := Public(token).String()
	var changes []audit.Record
	if s.known == nil {
		return "", func() {}
	}
	for _, known := range s.known.Enrollments {
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
	switch more := len(changes) - maxNotices; {
	case more == 1:
		lines = append(lines, "One more change of a consent policy is not shown here; `kubehsm audit` shows it.")
	case more > 1:
		lines = append(lines, fmt.Sprintf("%d more changes of consent policies are not shown here; "+
			"`kubehsm audit` shows each.", more))
	}
	// What made a policy less strict comes first: further changes, which any program of the
	// user can make, do not take its place.
	shown := slices.Clone(changes)
	slices.SortStableFunc(shown, func(x, y audit.Record) int { return weight(x) - weight(y) })
	for _, r := range shown[max(0, len(shown)-maxNotices):] {
		lines = slices.Insert(lines, 0, r.Sentence())
	}
	return strings.Join(lines, " "), sync.OnceFunc(func() { s.seen(changes) })
}

// weight puts changes in order: what a person must not miss comes last.
func weight(r audit.Record) int {
	switch {
	case r.Lowered:
		return 2
	case r.Reason == audit.PolicyRecord:
		return 1
	}
	return 0
}

// maxNotices is how many changes one prompt tells.
const maxNotices = 3

// seen records that a person was told of changes.
func (s *Policies) seen(changes []audit.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := map[string]bool{}
	for _, r := range changes {
		known := s.known.Enrollments[r.Enrollment]
		if done[r.Enrollment] || known == nil {
			continue
		}
		done[r.Enrollment] = true
		if n := len(known.Untold); n > 0 && known.Untold[n-1].Time.After(changes[len(changes)-1].Time) {
			continue // a later change is still untold
		}
		r := audit.Record{Event: audit.Policy, Reason: audit.PolicyTold, Enrollment: r.Enrollment, Key: r.Key, Token: r.Token}
		s.known.Follow(r)
		s.Records.Write(r)
	}
}

package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// policies holds what the audit log records of the enrolments' consent policies. The
// log is read with the first enrolment, and again when an enrolment's policy differs
// from the one that is known.
type policies struct {
	mu    sync.Mutex
	read  bool
	known map[string]*audit.PolicyState
}

// policyOf returns the policy in force for the key of e, the strictest of all
// enrolments with the key, and the other enrolments with the key. A policy that differs
// from the audit log goes on record, and the next prompt tells of the change. kubehsm
// asks for the PIN before it lowers a policy: where another program lowered one, the
// token is locked, so that this prompt comes at once.
func (a *agent) policyOf(e enrollment.Enrollment) (p consent.Policy, others []enrollment.Enrollment) {
	all, err := a.store.List()
	if err != nil { // an enrolment that cannot be read is not served; its policy is missed below
		a.log.Warn("enrolments", "error", err)
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
	if a.noticed(e, p, found) {
		a.lockToken(a.holder(e.Key), "policy")
	}
	return p, others
}

// noticed records the changes in the policies of e's key, and reports whether one was
// lowered.
func (a *agent) noticed(e enrollment.Enrollment, p consent.Policy, found map[string]consent.Policy) (lowered bool) {
	a.policies.mu.Lock()
	defer a.policies.mu.Unlock()
	changes := a.policyChanges(e, p, found)
	if len(changes) > 0 || !a.policies.read { // a kubehsm command may have recorded the change
		a.readPolicies()
		changes = a.policyChanges(e, p, found)
	}
	for _, r := range changes {
		audit.Follow(a.policies.known, r)
		a.record(r)
		if r.Lowered {
			lowered = true
			a.notify.Say(r.Sentence())
		}
	}
	return lowered
}

// readPolicies reads the audit log. Without a log in this process, as in some tests,
// every policy is new. The caller holds a.policies.mu.
func (a *agent) readPolicies() {
	a.policies.read = true
	if a.policies.known == nil {
		a.policies.known = map[string]*audit.PolicyState{}
	}
	if a.audit == nil {
		return
	}
	known, err := audit.Policies(context.Background(), audit.Path(a.o.Dirs))
	if err != nil {
		a.noteAudit(err)
		return
	}
	for name, s := range a.policies.known { // a log that was removed meanwhile must not lose the known policies
		if known[name] == nil {
			known[name] = s
		}
	}
	a.policies.known = known
	a.audit.Carry(known)
}

// policyChanges returns what differs between the policies of e's key, found, and the
// known ones. The caller holds a.policies.mu.
func (a *agent) policyChanges(e enrollment.Enrollment, inForce consent.Policy,
	found map[string]consent.Policy) (changes []audit.Record) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	change := func(name string, r audit.Record) {
		r.Time, r.Event, r.Enrollment, r.Key, r.Token = now, audit.Policy, name, e.KeyHash, public(e.Key)
		changes = append(changes, r)
	}
	for name, p := range found {
		s := a.policies.known[name]
		switch {
		case s == nil || s.Last.Reason == "":
			change(name, audit.Record{Reason: audit.PolicyFirst, Policy: p.String()})
		case s.Gone(), s.Last.Policy != p.String(), s.Last.Key != e.KeyHash:
			was := cmp.Or(s.Last.Policy, s.Last.Was)
			change(name, audit.Record{Reason: audit.PolicyFound, Was: was, Policy: p.String(),
				Lowered: !p.Covers(consent.ParsePolicy(was))})
		}
	}
	for name, s := range a.policies.known {
		if _, there := found[name]; !there && s.Last.Key == e.KeyHash && s.Last.Reason != "" && !s.Gone() {
			change(name, audit.Record{Reason: audit.PolicyGone, Was: s.Last.Policy,
				Lowered: !inForce.Covers(consent.ParsePolicy(s.Last.Policy))})
		}
	}
	return changes
}

// untold returns the policy changes that the next question about token has to tell, and
// told, a function to call when the person has answered.
func (a *agent) untold(token hsm.URI) (sentences string, told func()) {
	a.policies.mu.Lock()
	defer a.policies.mu.Unlock()
	name := public(token).String()
	var changes []audit.Record
	for _, s := range a.policies.known {
		for _, r := range s.Untold {
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
	if more := len(changes) - maxTold; more > 0 {
		lines = append(lines, fmt.Sprintf("There were %d more changes of consent policies; `kubehsm audit` shows each.", more))
	}
	for _, r := range changes[max(0, len(changes)-maxTold):] {
		lines = append(lines, r.Sentence())
	}
	return strings.Join(lines, " "), sync.OnceFunc(func() { a.told(changes) })
}

// maxTold is how many changes one prompt tells: the latest ones.
const maxTold = 3

// told records that a person was told of changes.
func (a *agent) told(changes []audit.Record) {
	a.policies.mu.Lock()
	defer a.policies.mu.Unlock()
	done := map[string]bool{}
	for _, r := range changes {
		s := a.policies.known[r.Enrollment]
		if done[r.Enrollment] || s == nil {
			continue
		}
		done[r.Enrollment] = true
		if n := len(s.Untold); n > 0 && s.Untold[n-1].Time.After(changes[len(changes)-1].Time) {
			continue // a later change is still untold
		}
		r := audit.Record{Event: audit.Policy, Reason: audit.PolicyTold, Enrollment: r.Enrollment, Key: r.Key, Token: r.Token}
		audit.Follow(a.policies.known, r)
		a.record(r)
	}
}

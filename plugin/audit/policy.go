package audit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// The reasons of a [Policy] record.
const (
	PolicyEnrolled = "enrolled" // the enrollment was made, or made anew
	PolicySet      = "set"      // kubehsm was told to set it
	PolicyFound    = "found"    // the store says something else than the log
	PolicyFirst    = "first"    // the log knew nothing of the enrollment
	PolicyRemoved  = "removed"  // kubehsm was told to remove the enrollment
	PolicyGone     = "gone"     // the enrollment cannot be read any more
	PolicyKept     = "kept"     // nothing has changed: written again, in a new file
	PolicyTold     = "told"     // a person was told of the changes before
	PolicyRecord   = "record"   // the key's record does not count; Error says why
)

// PolicyState is what the log says of one enrollment's consent policy.
type PolicyState struct {
	// Last is the latest record that has the policy.
	Last Record
	// Untold are the changes that nobody was told of yet, the oldest first.
	Untold []Record
}

// Gone tells whether the enrollment is not there any more.
func (s PolicyState) Gone() bool {
	return s.Last.Reason == PolicyRemoved || s.Last.Reason == PolicyGone
}

// maxUntold bounds the changes that are kept for one enrollment.
const maxUntold = 64

// Known is what the log says of consent policies.
type Known struct {
	// Enrollments are the enrollments, by name.
	Enrollments map[string]*PolicyState
	// Keys are the keys, by their hashes.
	Keys map[string]*KeyState
}

// NewKnown knows nothing yet.
func NewKnown() *Known {
	return &Known{Enrollments: map[string]*PolicyState{}, Keys: map[string]*KeyState{}}
}

// Policies reads what the log at path knows of consent policies. What was known of the keys
// before, which may be nil, counts, and is taken over: a log that was rolled back takes
// nothing from it.
func Policies(ctx context.Context, path string, before *Known) (*Known, error) {
	all := NewKnown()
	if before != nil {
		all.Keys = before.Keys
		for _, k := range all.Keys {
			k.InLog = false
		}
	}
	_, err := Read(ctx, path, Filter{policies: true}, func(r Record) error {
		all.Follow(r)
		return nil
	})
	return all, err
}

// Follow takes one more record in.
func (all *Known) Follow(r Record) {
	if r.Key != "" {
		k := all.Keys[r.Key]
		if k == nil {
			k = &KeyState{}
			all.Keys[r.Key] = k
		}
		k.follow(r)
	}
	switch {
	case r.Event == PolicyKey:
	case r.Reason == PolicyRecord: // nothing was changed: what counts is what the log knows
		all.of(r.Enrollment).tell(r)
	default:
		all.change(r)
	}
}

func (all *Known) of(name string) *PolicyState {
	s := all.Enrollments[name]
	if s == nil {
		s = &PolicyState{}
		all.Enrollments[name] = s
	}
	return s
}

// change takes in what became of an enrollment's policy, or that it was told.
func (all *Known) change(r Record) {
	s := all.of(r.Enrollment)
	if r.Reason == PolicyTold {
		s.Untold = nil
		return
	}
	fresh := r.Reason == PolicyEnrolled && (s.Last.Policy == "" || s.Last.Policy == r.Policy)
	s.Last = r
	if r.Reason != PolicyKept && !fresh {
		s.tell(r)
	}
}

// tell adds a change that nobody was told of yet.
func (s *PolicyState) tell(r Record) {
	s.Untold = append(s.Untold, r)
	s.Untold = s.Untold[max(0, len(s.Untold)-maxUntold):]
}

// Sentence says what has changed.
func (r Record) Sentence() string {
	at := r.Time.Local().Format("on 2006-01-02 at 15:04")
	name := consent.Name(r.Enrollment)
	was, now := "unknown", words(r.Policy)
	if r.Was != "" {
		was = words(r.Was)
	}
	lowered := ""
	if r.Lowered {
		lowered = ", which is less strict"
	}
	switch r.Reason {
	case PolicySet, PolicyEnrolled:
		return "The consent policy of " + name + " was set from " + was + " to " + now + lowered + ", " + at + "."
	case PolicyFound:
		return "The consent policy of " + name + " was changed in its file from " + was + " to " + now + lowered +
			" (found " + at + ")."
	case PolicyFirst:
		return "The audit log had no record of the consent policy of " + name + ", which is " + now +
			": the log is new, or was removed."
	case PolicyRecord:
		return "The signed consent policy of the key of " + name + " " + Problem(r.Error).Words() + " (found " + at +
			"). The strictest policy that the audit log knows applies: " + now + "."
	case PolicyRemoved, PolicyGone:
		return "The enrollment " + name + " is gone (found " + at + "). Its consent policy " + was +
			" no longer applies to its key."
	}
	return ""
}

// maxWords bounds the words of a policy in a sentence, in bytes: what is said of it stands
// behind, and a question below.
const maxWords = 80

// words is a policy in words, quoted if it has what kubehsm's never have: any program of
// the user may have written it.
func words(policy string) string {
	if strings.ContainsFunc(policy, func(c rune) bool { return c < ' ' || c > '~' }) {
		policy = strconv.QuoteToASCII(policy)
	}
	if len(policy) > maxWords {
		return policy[:maxWords-len("[...]")] + "[...]"
	}
	return policy
}

// Append writes one record, for a program that is not the agent: that one keeps the
// log open, and alone begins new files.
func Append(path string, r Record) (err error) {
	l, err := Open(path)
	if err != nil {
		return err
	}
	l.maxSize = 1 << 62
	return errors.Join(l.Write(r), l.Close())
}

// lost tells whether the file that is written is not the log any more: somebody has
// removed or replaced it. l.mu is held.
func (l *Log) lost() bool {
	if l.f == nil {
		return false
	}
	mine, err := l.f.Stat()
	if err != nil {
		return true
	}
	now, err := os.Stat(l.path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, now)
}

// Recover begins a new file if somebody has removed the log, and tells whether so. What is
// known of the policies is written to it again.
func (l *Log) Recover() (lost bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lost() {
		return false, nil
	}
	err = l.f.Close()
	l.f = nil
	return true, errors.Join(err, l.open(), l.carry())
}

// Carry notes the policies that every new file begins with, so that the log does not
// forget them when its oldest file goes.
func (l *Log) Carry(all *Known) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, s := range all.Enrollments {
		if s.Last.Policy != "" {
			l.policies[name] = s.Last
		}
	}
	for hash, k := range all.Keys {
		l.keys[hash] = *k
	}
}

// maxKept bounds a record that says that a policy was kept, in bytes of JSON. Ours have less.
const maxKept = 8 << 10

// carry begins a file. l.mu is held.
func (l *Log) carry() error {
	l.carrying = true
	defer func() { l.carrying, l.carried = false, l.size }()
	var errs []error
	for _, r := range sorted(l.policies) {
		r.Reason, r.Was, r.Lowered, r.Time = PolicyKept, "", false, l.now()
		r.Number, r.Statement, r.Signature = 0, "", nil // The key's own record follows, and has these.
		if size(r) > maxKept {
			r = Record{Time: r.Time, Event: r.Event, Reason: r.Reason, Enrollment: r.Enrollment,
				Key: r.Key, Policy: everything}
		}
		if size(r) > maxKept {
			continue // invalid name, so another program wrote it
		}
		errs = append(errs, l.write(r))
	}
	for _, hash := range slices.Sorted(maps.Keys(l.keys)) {
		if k := l.keys[hash]; k.Version.Number > 0 {
			errs = append(errs, l.write(k.Record(hash)))
		}
	}
	return errors.Join(errs...)
}

func sorted(all map[string]Record) []Record {
	var list []Record
	for _, r := range all {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Record) int { return bytes.Compare([]byte(a.Enrollment), []byte(b.Enrollment)) })
	return list
}

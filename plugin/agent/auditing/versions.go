package auditing

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/desktop"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// Versions judges the records of enrollments, and remembers for as long as the agent runs the
// latest version of each that its key has signed: an earlier one is not served, and the policy of
// one that was removed goes on asking.
type Versions struct {
	Store   enrollment.Store
	Records *Records
	Notify  *desktop.Notifier
	Log     *slog.Logger
	Changed func(name string) // is told of an enrollment whose record was replaced by a later version

	mu     sync.Mutex
	known  map[ofKey]known
	untold []change
}

// ofKey is the name of an enrollment of the key with that hash.
type ofKey struct{ hash, name string }

type known struct {
	signed  enrollment.Signed
	version enrollment.Version
}

// change is a later version that no person was told of yet.
type change struct {
	token    string
	sentence string
}

// Check is nil if the record of e counts: its key has signed it, and no later version is known.
// Errors wrap [enrollment.ErrUnsigned].
func (s *Versions) Check(e enrollment.Enrollment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := ofKey{e.KeyHash, e.Name}
	last, seen := s.known[id]
	if seen && last.signed.Text == e.Signed.Text && bytes.Equal(last.signed.Signature, e.Signed.Signature) {
		return e.Agrees(last.version)
	}
	v, err := e.Version()
	switch {
	case err != nil:
		return err
	case !seen:
		s.Records.Version(e, v, "first")
	case v.Number <= last.version.Number:
		return e.SignAgain(fmt.Errorf("enrollment %s: %w: a later version of the record was in use, and this one is back",
			e.Name, enrollment.ErrUnsigned))
	default:
		s.Records.Version(e, v, "changed")
		c := change{Public(e.Key).String(), sentence(last.version, v)}
		s.untold = append(s.untold, c)
		s.Notify.Say(c.sentence)
		s.Changed(e.Name)
	}
	if s.known == nil {
		s.known = map[ofKey]known{}
	}
	s.known[id] = known{e.Signed, v}
	return nil
}

// sentence says what has changed from one version to a later one.
func sentence(from, to enrollment.Version) string {
	var what []string
	for _, f := range enrollment.Changes(from, to) {
		what = append(what, f.Label+" "+strings.Join(f.Values, ", "))
	}
	return fmt.Sprintf("The record of %s was changed: %s. Its key signed that %s.", consent.Name(to.Name),
		strings.Join(what, "; "), to.Time.Local().Format("on 2006-01-02 at 15:04"))
}

// Of returns the policies that requests for e are asked about by, and the other enrollments with
// its keys: its own and those of its spares, or of the enrollment whose spare it is. A policy
// counts if its key has signed it, even if its record has been removed or changed since the agent
// saw it. The error says why the record of e itself does not count.
func (s *Versions) Of(e enrollment.Enrollment) (policies consent.Policies, others []enrollment.Enrollment, err error) {
	if err := s.Check(e); err != nil {
		return nil, nil, err
	}
	family, err := s.Store.Family(e)
	if err != nil {
		s.Log.Warn("enrollments", "error", err)
	}
	hashes := []string{e.KeyHash}
	if e.SpareOf != "" {
		hashes = append(hashes, e.SpareOfKey)
	}
	for _, f := range family {
		hashes = append(hashes, f.KeyHash)
	}
	all, err := s.Store.List()
	if err != nil { // what cannot be read is not served
		s.Log.Warn("enrollments", "error", err)
	}
	for _, each := range all {
		if each.Name == e.Name || !slices.Contains(hashes, each.KeyHash) {
			continue
		}
		others = append(others, each)
		if err := s.Check(each); err != nil {
			s.Log.Warn("a record does not count", "enrollment", each.Name, "error", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, k := range s.known {
		family := slices.Contains(hashes, id.hash) || slices.Contains(hashes, k.version.SpareOfKey)
		if family && k.version.Consent().Asks() {
			policies = append(policies, k.version.Consent())
		}
	}
	slices.SortFunc(policies, func(x, y consent.Policy) int { return strings.Compare(x.String(), y.String()) })
	return policies, others, nil
}

// maxNotices is how many changes one prompt tells of.
const maxNotices = 3

// Notice returns the changes that the next prompt about token has to tell of, and seen, which is
// called once a person has answered it by a PIN that was right, or by a touch.
func (s *Versions) Notice(token hsm.URI) (sentences string, seen func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := Public(token).String()
	var told []change
	for _, c := range s.untold {
		if c.token == of {
			told = append(told, c)
		}
	}
	var lines []string
	for _, c := range slices.Backward(told) {
		if len(lines) == maxNotices {
			lines = append(lines, "`kubehsm audit` shows earlier changes.")
			break
		}
		lines = append(lines, c.sentence)
	}
	return strings.Join(lines, " "), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.untold = slices.DeleteFunc(s.untold, func(c change) bool { return slices.Contains(told, c) })
	}
}

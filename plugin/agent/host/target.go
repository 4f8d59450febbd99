package host

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// target is an enrollment in use: as it was read, and the way to its server.
type target struct {
	e       enrollment.Enrollment
	key     enrollment.Enrollment   // enrollment whose key signs: e or a spare of e
	chain   []*x509.Certificate     // chain of key
	policy  consent.Policies        // policies of all enrollments of e's keys
	others  []enrollment.Enrollment // other enrollments of e's keys
	again   *enrollment.Enrollment  // the spare of key, as its record has to be signed again; nil if it is as it has to be
	version atomic.Pointer[version]
	held    *token.Held
	up      *upstream.Upstream
	ready   atomic.Bool // the API server has taken our certificate
	past    atomic.Bool // the store has a successor, which waits until no connection is open
	before  *target     // target of an earlier certificate, which may carry streams; guarded by targets.mu

	useMu sync.Mutex
	seen  time.Time // the upstream's last use as it was seen last
	used  time.Time // time at which a change was seen, by both clocks
}

// lastUse is when a request was last seen to use the upstream, or that of an earlier certificate. The
// mutex of the targets is held.
func (t *target) lastUse() (used time.Time) {
	if t.before != nil {
		used = t.before.lastUse()
	}
	t.useMu.Lock()
	defer t.useMu.Unlock()
	if u := t.up.LastUsed(); !u.Equal(t.seen) {
		t.seen, t.used = u, time.Now()
	}
	if t.used.After(used) {
		return t.used
	}
	return used
}

// same tells whether two targets are the same but for their versions.
func (t *target) same(o *target) bool {
	return reflect.DeepEqual(t.e, o.e) && reflect.DeepEqual(t.key, o.key) &&
		reflect.DeepEqual(t.policy, o.policy) && reflect.DeepEqual(t.others, o.others) &&
		slices.EqualFunc(t.chain, o.chain, (*x509.Certificate).Equal)
}

// find looks the key up on its token.
func (t *target) find(ctx context.Context) (hsm.Slot, error) {
	slot, err := t.held.Find(ctx, t.key.Key, t.chain[0].PublicKey)
	return slot, t.lost(err)
}

// lost says of a key that is no longer on its token how to enroll anew.
func (t *target) lost(err error) error {
	if !errors.Is(err, hsm.ErrKeyMismatch) && (!errors.Is(err, hsm.ErrNoKey) || hint.Of(err) != "") {
		return err
	}
	gone := t.key.KeyGone()
	return hint.With(fmt.Errorf("%w: %w", gone, err), hint.Of(gone))
}

// inDate says whether the certificate can be used now.
func (t *target) inDate(now time.Time) error {
	leaf := t.chain[0]
	name := t.key.Name
	switch {
	case now.After(leaf.NotAfter):
		err := fmt.Errorf("%s: %w: it expired on %s", name, message.ErrCertificateExpired,
			leaf.NotAfter.Local().Format(time.DateTime))
		if t.e.Context == "" {
			return hint.Withf(err, "ask the help desk for a ticket, and get a new one with `%s`", t.key.Anew())
		}
		return hint.Withf(err, "get a new one with `%s`", t.key.Anew())
	case now.Before(leaf.NotBefore):
		return hint.With(
			fmt.Errorf("%s: %w: it begins on %s", name, message.ErrCertificateExpired,
				leaf.NotBefore.Local().Format(time.DateTime)),
			"check this computer's clock")
	}
	return nil
}

// targets are the enrollments in use.
type targets struct {
	store     enrollment.Store
	versions  *auditing.Versions
	tokens    *token.Holders
	sessions  *bridge.Sessions
	signer    func(context.Context, *target) (crypto.Signer, error) // function that signs for a new connection
	handshake time.Duration                                         // limit of [upstream.Options]
	log       *slog.Logger

	mu         sync.RWMutex
	all        map[string]*target // targets by enrollment
	locked     map[string]*target // targets that a lock has taken out, see [targets.resume]
	signatures uint64             // signatures of upstreams that are gone
	dials      uint64
}

// current returns the enrollment of that name as it is in memory, or nil.
func (s *targets) current(name string) *target {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[name]
}

// route finds the upstream of an enrollment for the bridge. One that has a successor opens no connection any more.
func (s *targets) route(name string) *upstream.Upstream {
	if t := s.current(name); t != nil && t.ready.Load() && (!t.past.Load() || t.up.Live()) {
		return t.up
	}
	return nil
}

// target returns the enrollment of that name as the store has it now. What is
// in memory is good as long as the files are the same ones.
func (s *targets) target(name string) (*target, error) {
	t := s.current(name)
	serves := t != nil && t.past.Load() && t.serves(time.Now())
	if t != nil && s.isCurrent(t) && (serves || !t.past.Load()) {
		return t, nil
	}
	fresh, err := s.load(name, nil)
	if err != nil {
		s.replace(name, t, nil) // an enrollment that is gone is not served
		return nil, err
	}
	if t != nil && (t.same(fresh) || serves && t.leads(fresh) && t.held == fresh.held) { // another enrollment has changed
		t.version.Store(fresh.version.Load())
		fresh.up.Close()
		return t, nil
	}
	return s.replace(name, t, fresh), nil
}

// serves tells whether t has a connection that can be used without a signature.
func (t *target) serves(now time.Time) bool {
	return t.ready.Load() && !t.up.Rejected() && t.up.Live() && t.inDate(now) == nil
}

// load reads the enrollment called name as it is served by the key of by, or of the one used last if by
// is nil.
func (s *targets) load(name string, by *enrollment.Enrollment) (*target, error) {
	e, err := s.store.Load(name)
	if err != nil {
		return nil, err
	}
	key := s.store.InUse(e)
	if by != nil {
		key = *by
	}
	before := s.store.Version(key)
	t := &target{e: e, key: key}
	if t.policy, t.others, err = s.versions.Of(e); err != nil {
		return nil, err
	}
	if err := s.spare(t); err != nil {
		return nil, err
	}
	read := s.version(t) // the version before the chain is read: a later write shows
	if again, err := s.store.Load(name); err != nil || !reflect.DeepEqual(again, e) ||
		!strings.HasPrefix(read.stamps, before) {
		read = &version{} // the enrollment was read before this version
	}
	if t.chain, err = s.store.Certificate(key); err != nil {
		return nil, err
	}
	t.version.Store(read)
	return t, s.way(t)
}

// spare finds out whether t is served by the key of a spare whose record does not say what that of
// its enrollment does.
func (s *targets) spare(t *target) error {
	if err := s.versions.Check(t.key); err != nil || t.key.SpareOf == "" {
		return err
	}
	first := t.e
	if t.e.Name == t.key.Name {
		var err error
		if first, err = s.store.Load(t.key.SpareOf); errors.Is(err, enrollment.ErrUnknown) { // the spare is left alone
			return nil
		} else if err != nil {
			return err
		}
		if err := s.versions.Check(first); err != nil {
			return err
		}
	}
	next, differs, err := t.key.Follow(first)
	if differs {
		t.again = &next
	}
	return err
}

// version is the state of the store at a time.
type version struct {
	stamps string // [enrollment.Store.Version] of every record that a target was read from, its own first
	seen   time.Time
}

func (s *targets) version(t *target) *version {
	now := time.Now()
	return &version{stamps: s.store.Version(t.key, append([]enrollment.Enrollment{t.e}, t.others...)...), seen: now}
}

// othersAfter is how long the records and policies of other enrollments with the keys of a target go unread while
// their folders are as they were. kubehsm replaces a file, which changes its folder; an editor may write into it.
const othersAfter = time.Second

// isCurrent tells whether the store still has what t was read from. A command uses one enrollment of
// perhaps hundreds with the same key.
func (s *targets) isCurrent(t *target) bool {
	was := t.version.Load()
	if time.Since(was.seen) < othersAfter && strings.HasPrefix(was.stamps, s.store.Version(t.key, t.e)) {
		return true
	}
	now := s.version(t)
	if now.stamps != was.stamps {
		return false
	}
	t.version.Store(now)
	return true
}

// way gives t its token, and a way to its server.
func (s *targets) way(t *target) (err error) {
	t.held, t.seen = s.tokens.Of(t.key.Key), time.Unix(0, 0)
	t.up, err = upstream.New(upstream.Options{Enrollment: t.e, Policy: t.policy, Chain: t.chain, Log: s.log,
		Handshake: s.handshake,
		Signer:    func(ctx context.Context) (crypto.Signer, error) { return s.signer(ctx, t) }})
	return err
}

// replace puts fresh in old's place, if old is still there. A renewed certificate
// leaves running streams alone; any other change cuts them, as they lead to a
// server, or come from a key, that the user has since changed.
func (s *targets) replace(name string, old, fresh *target) *target {
	s.mu.Lock()
	current := s.all[name]
	if current != old { // another request has replaced the target
		s.mu.Unlock()
		if fresh != nil {
			fresh.up.Close()
		}
		if current == nil {
			current = fresh
		}
		return current
	}
	if old != nil {
		s.drop(old)
	} else {
		s.resume(name, fresh)
	}
	renewed := old != nil && old.leads(fresh) && old.held == fresh.held // nothing outlasts the token that signed it
	if renewed {
		old.before = old.before.carrying()
		fresh.before = old // before a lock can find fresh: it cuts both
	}
	if fresh != nil {
		s.all[name] = fresh
	}
	s.mu.Unlock()
	if old == nil {
		return fresh
	}
	switch {
	case renewed:
		old.up.Reset()
		old.up.Forget() // a resumed session would go on with the old certificate
	case old.leads(fresh):
		old.close(nil)
	default:
		s.sessions.Drop(name)
		old.close(nil)
	}
	return fresh
}

// carrying returns those of t and the targets before it that carry anything, or are about to. The mutex of
// the targets is held.
func (t *target) carrying() *target {
	if t == nil {
		return nil
	}
	t.before = t.before.carrying()
	if !t.up.Carries() {
		return t.before
	}
	return t
}

// close cuts what t, which is out of the targets, and the targets before it carry, for the reason why,
// which may be nil.
func (t *target) close(why error) {
	for ; t != nil; t = t.before {
		if why == nil {
			t.up.Close()
		} else {
			t.up.CloseFor(why)
		}
	}
}

// leads reports whether fresh, which may be nil, is the same way but for its key and certificate.
func (t *target) leads(fresh *target) bool {
	return fresh != nil && reflect.DeepEqual(t.e, fresh.e) && reflect.DeepEqual(t.policy, fresh.policy)
}

// resume has the sessions that a lock has ended forgotten if the enrollment is another now:
// they would begin again on a way that is not theirs. s.mu is held.
func (s *targets) resume(name string, fresh *target) {
	if old := s.locked[name]; old != nil && !old.leads(fresh) {
		s.sessions.Drop(name)
	}
	delete(s.locked, name)
}

// drop takes one out and keeps its counters. s.mu is held.
func (s *targets) drop(t *target) {
	delete(s.all, t.e.Name)
	u := t.up.Status()
	s.signatures += u.Signatures
	s.dials += u.Dials
}

// forget takes out those that stand on a token, or all if h is nil. Their upstreams
// are the caller's to close.
func (s *targets) forget(h *token.Held) (gone []*target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		if h == nil || t.held == h {
			gone = append(gone, t)
			s.drop(t)
			if s.locked == nil {
				s.locked = map[string]*target{}
			}
			s.locked[t.e.Name] = &target{e: t.e, policy: t.policy}
		}
	}
	return gone
}

// follow takes over what has changed in the store, also for clients that run on
// and do not ask: another policy, server or authority, or an enrollment that is
// gone.
func (s *targets) follow() {
	s.mu.RLock()
	names := slices.Collect(maps.Keys(s.all))
	s.mu.RUnlock()
	for _, name := range names {
		if _, err := s.target(name); err != nil {
			s.log.Info("an enrollment in use has changed", "enrollment", name, "error", err)
		}
	}
}

// isReady tells whether a connection stands on the token; its key may want no PIN.
func (s *targets) isReady(h *token.Held) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.all {
		if t.held == h && t.ready.Load() {
			return true
		}
	}
	return false
}

// any tells whether an enrollment is in use.
func (s *targets) any() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.all) > 0
}

// uses returns the last use by a request of each token that is in use.
func (s *targets) uses() map[*token.Held]time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := map[*token.Held]time.Time{}
	for _, t := range s.all {
		if used := t.lastUse(); used.After(all[t.held]) {
			all[t.held] = used
		}
	}
	return all
}

// status describes the upstreams; signatures and dials count since the start.
func (s *targets) status() (all []upstream.Status, signatures, dials uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all, signatures, dials = []upstream.Status{}, s.signatures, s.dials
	for _, t := range s.all {
		u := t.up.Status()
		u.LastError = link.Short(u.LastError)
		all = append(all, u)
		signatures += u.Signatures
		dials += u.Dials
	}
	slices.SortFunc(all, func(x, y upstream.Status) int { return cmp.Compare(x.Enrollment, y.Enrollment) })
	return all, signatures, dials
}

package revocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// API reads and writes objects of one cluster. Errors are those of the API machinery.
type API interface {
	// List returns all objects of a kind.
	List(ctx context.Context, apiVersion, kind string) ([]Object, error)
	// Create makes an object that has a name.
	Create(ctx context.Context, o Object) error
	// Replace writes an object as it was read and changed, and fails with a conflict if
	// somebody else has changed it since.
	Replace(ctx context.Context, o Object) error
}

// Errors of a [Ledger].
var (
	// ErrNotRevoked is a certificate that is not on the list.
	ErrNotRevoked = errors.New("not revoked")
	// ErrContended is a list that others changed whenever it was to be written.
	ErrContended = errors.New("others keep changing the list of revoked certificates")
	// ErrFull is a list that has no room in the policies that the writer may update.
	ErrFull = fmt.Errorf("the policies %s1 to %[1]s%d are full, and the approver may write no others: "+
		"a cluster admin can revoke with `kubehsm helpdesk revoke`, "+
		"and lift what should not be revoked with `kubehsm revocation lift`",
		PolicyPrefix, NamedPolicies)
)

// maxTries bounds how often a write begins anew because others have written. Each time one
// of them has succeeded.
const maxTries = 50

// Ledger is the list of revoked certificates of one cluster. The cluster's policies are the
// list: several ledgers may write at once, and no entry is lost. Policies are never deleted
// and entries never move between them, so that what is in force stays in force at every
// moment of a write, whenever it ends.
type Ledger struct {
	API API
	// Named keeps writes to the first [NamedPolicies] policies, for a writer that may update those only.
	Named bool

	limit int // what takes the place of MaxLiteral, unless it is 0
}

// List is the state of a ledger.
type List struct {
	Shards []Shard
	// Settings are those of the policies; the default without policies.
	Settings Settings
}

// All goes through the entries, and says of each which shard it is in.
func (l List) All() iter.Seq2[Entry, Shard] {
	return func(yield func(Entry, Shard) bool) {
		for _, s := range l.Shards {
			for _, e := range s.Entries {
				if !yield(e, s) {
					return
				}
			}
		}
	}
}

// Find returns the entry for a certificate, or for a key, given as SHA-256. An empty hash
// finds nothing.
func (l List) Find(certificate, key string) (Entry, bool) {
	for e := range l.All() {
		if certificate != "" && e.Certificate == certificate || key != "" && e.Key == key {
			return e, true
		}
	}
	return Entry{}, false
}

// Covers reports whether the list keeps out what e does: the certificate for as long, and its key, if that is known.
func (l List) Covers(e Entry) bool {
	all := cover{}
	for held := range l.All() {
		all.add(held)
	}
	return all.covers(e)
}

// Objections say why a request is not to be approved that was filed with a certificate and is for
// a key, both given as SHA-256, "" for none.
func (l List) Objections(certificate, key string) (all []string) {
	object := func(what, certificate, key string) {
		e, ok := l.Find(certificate, key)
		if !ok {
			return
		}
		why := fmt.Sprintf("%s %q, whose certificate %.16s… was revoked in the cluster by %s", what, e.User,
			e.Certificate, e.By)
		if e.Reason != "" {
			why += ": " + e.Reason
		}
		all = append(all, why)
	}
	object("its key is one of", "", key)
	object("it was filed by", certificate, "")
	return all
}

// Err names the policies that cannot be read or have no effect, and its hint how to mend that; nil if all is well.
func (l List) Err() error {
	var errs []error
	for _, s := range l.Shards {
		switch {
		case s.Err != nil:
			errs = append(errs, s.Err)
		case !s.Bound:
			errs = append(errs, fmt.Errorf("policy %s has no binding that denies, so it refuses nothing", s.Name))
		case s.Differs:
			errs = append(errs, fmt.Errorf("the rules of policy %s are not those that kubehsm writes", s.Name))
		}
	}
	return hint.With(errors.Join(errs...),
		"`kubehsm revocation set` writes the policies anew; delete a policy that cannot be read")
}

// Read returns the list as the cluster has it.
func (l Ledger) Read(ctx context.Context) (List, error) {
	list, _, err := l.read(ctx)
	return list, err
}

// read returns the list, and the bindings by name.
func (l Ledger) read(ctx context.Context) (List, map[string]Object, error) {
	var list List
	policies, err := l.API.List(ctx, apiVersion, policyKind)
	if err != nil {
		return list, nil, err
	}
	objects, err := l.API.List(ctx, apiVersion, bindingKind)
	if err != nil {
		return list, nil, err
	}
	return ListOf(policies, objects), byName(objects), nil
}

// byName is the list's bindings by their name.
func byName(bindings []Object) map[string]Object {
	all := map[string]Object{}
	for _, b := range bindings {
		if name, _ := at(b, "metadata", "name").(string); strings.HasPrefix(name, PolicyPrefix) {
			all[name] = b
		}
	}
	return all
}

// ListOf is the list that policies hold, which the bindings put in force. Objects that are not of
// the list are passed over.
func ListOf(policies, bindings []Object) (list List) {
	settled, bound := false, byName(bindings)
	for _, o := range policies {
		if name, _ := at(o, "metadata", "name").(string); !strings.HasPrefix(name, PolicyPrefix) {
			continue
		}
		s := shardOf(o)
		s.Bound = binds(bound[s.Name], s)
		if s.Err == nil && !settled {
			list.Settings, settled = s.Settings, true
		}
		list.Shards = append(list.Shards, s)
	}
	slices.SortFunc(list.Shards, func(a, b Shard) int { return number(a.Name) - number(b.Name) })
	return list
}

// binds tells whether a binding puts the shard's policy in force everywhere.
func binds(b Object, s Shard) bool {
	return b != nil && covers(b["spec"], s.Binding()["spec"]) && at(b, "spec", "matchResources") == nil &&
		at(b, "spec", "paramRef") == nil
}

// number is the number at the end of a shard's name, 0 if there is none.
func number(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, PolicyPrefix))
	if err != nil {
		return 0
	}
	return n
}

// Revoke puts entries on the list, takes off what has ended at now (nothing, if that is zero), and returns the shards
// that hold the certificates. No entry that is on the list changes, as it has its author's words: what the list does not
// cover is an entry of its own, beside those that there are for the certificate.
func (l Ledger) Revoke(ctx context.Context, now time.Time, entries ...Entry) ([]Shard, error) {
	return l.Hold(ctx, now, func(context.Context, List) ([]Entry, error) { return entries, nil })
}

// Hold is [Ledger.Revoke] for a controller that keeps the entries elsewhere too. wanted returns them each time the
// list has been read, so that no write puts back what has been lifted meanwhile. Entries that are not wanted stay.
func (l Ledger) Hold(ctx context.Context, now time.Time,
	wanted func(context.Context, List) ([]Entry, error)) ([]Shard, error) {
	return l.write(ctx, now, func(list List) (plan, error) {
		entries, err := wanted(ctx, list)
		for _, e := range entries {
			if _, invalid := e.text(); err == nil {
				err = invalid
			}
		}
		return plan{add: entries}, err
	})
}

// Lift takes certificates off the list, and what has ended at now, and returns the shards
// that held them. ErrNotRevoked names one that is not on it; then nothing is written. What
// somebody revokes anew meanwhile stays on the list.
func (l Ledger) Lift(ctx context.Context, now time.Time, certificates ...string) ([]Shard, error) {
	var first map[Entry]bool // the entries that the first try has read
	return l.write(ctx, now, func(list List) (plan, error) {
		if first == nil { // later, an earlier try or another writer may have taken some off
			read := map[Entry]bool{}
			for _, c := range certificates {
				on := false
				for e := range list.All() {
					if e.Certificate == c {
						read[e], on = true, true
					}
				}
				if !on {
					return plan{}, fmt.Errorf("certificate %s: %w", c, ErrNotRevoked)
				}
			}
			first = read
		}
		// All that was said is compared: the time has whole seconds, in which somebody may revoke anew.
		return plan{drop: func(e Entry) bool { return first[e] }}, nil
	})
}

// Configure gives all policies other settings. ErrSpared is a group that may not be spared.
func (l Ledger) Configure(ctx context.Context, now time.Time, settings Settings) ([]Shard, error) {
	if err := settings.check(); err != nil {
		return nil, err
	}
	return l.write(ctx, now, func(List) (plan, error) { return plan{settings: &settings}, nil })
}

// plan is a change of the list.
type plan struct {
	add      []Entry
	drop     func(Entry) bool
	settings *Settings
}

// write changes the list, from the beginning again whenever somebody else was quicker.
func (l Ledger) write(ctx context.Context, now time.Time, change func(List) (plan, error)) ([]Shard, error) {
	for range maxTries {
		list, bindings, err := l.read(ctx)
		if err != nil {
			return nil, err
		}
		p, err := change(list)
		if err != nil {
			return nil, err
		}
		shards, touched, full := p.apply(list, now, cmp.Or(l.limit, MaxLiteral), l.Named)
		err = l.save(ctx, shards, bindings)
		switch {
		case err == nil:
			return touched, full
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
	return nil, ErrContended
}

// apply returns the shards as they are to be, none with a literal of more than limit bytes,
// those that grow first, and those that the plan is about. Shards that cannot be read are
// left out, and with named those beyond [NamedPolicies]. What then has no room is [ErrFull]; the shards
// have the rest.
func (p plan) apply(list List, now time.Time, limit int, named bool) (shards, touched []Shard, err error) {
	settings := list.Settings
	if p.settings != nil {
		settings = *p.settings
	}
	held, asked := cover{}, map[string]bool{} // by certificates
	for _, e := range p.add {
		asked[e.Certificate] = true
	}
	concerns, loads := map[string]bool{}, map[string]*load{} // by the names of shards
	last, beyond := 0, []Shard(nil)
	for _, s := range list.Shards {
		last = max(last, number(s.Name))
		if s.Err != nil {
			continue
		}
		if named && number(s.Name) > NamedPolicies {
			for _, e := range s.Entries {
				if !e.Ended(now) {
					held.add(e)
				}
				if asked[e.Certificate] {
					concerns[s.Name] = true
					s.added = append(s.added, e.Certificate)
				}
			}
			beyond = append(beyond, s)
			continue
		}
		var kept []Entry
		loads[s.Name] = &load{limit: limit}
		for _, e := range s.Entries {
			switch {
			case e.Ended(now):
			case p.drop != nil && p.drop(e):
				concerns[s.Name] = true
				s.dropped = append(s.dropped, e.Certificate)
			default:
				held.add(e)
				if asked[e.Certificate] {
					concerns[s.Name] = true
					s.added = append(s.added, e.Certificate)
				}
				kept = append(kept, e)
				loads[s.Name].add(e)
			}
		}
		s.Entries, s.Settings, s.settled = kept, settings, p.settings != nil
		shards = append(shards, s)
	}
	grown := map[string]bool{}
	grow := func() {
		last++
		s := Shard{Name: PolicyPrefix + strconv.Itoa(last), Settings: settings, settled: p.settings != nil}
		shards, loads[s.Name] = append(shards, s), &load{limit: limit}
	}
	if p.settings != nil && len(shards) == 0 { // settings are kept in policies only
		grow()
	}
	for _, e := range p.add {
		if held.covers(e) || e.Ended(now) {
			continue
		}
		held.add(e)
		size, literal := e.size(), e.list() // once: where policies are full, all of them are looked at
		i := slices.IndexFunc(shards, func(s Shard) bool { return loads[s.Name].fits(size, literal) })
		if i < 0 && named && last >= NamedPolicies {
			err = ErrFull
			continue
		}
		if i < 0 {
			grow()
			i = len(shards) - 1
		}
		s := &shards[i]
		s.Entries, s.added = append(s.Entries, e), append(s.added, e.Certificate)
		loads[s.Name].add(e)
		concerns[s.Name], grown[s.Name] = true, true
	}
	slices.SortStableFunc(shards, func(a, b Shard) int {
		switch {
		case grown[a.Name] == grown[b.Name]:
			return 0
		case grown[a.Name]:
			return -1
		}
		return 1
	})
	for _, s := range append(beyond, shards...) {
		if concerns[s.Name] || p.settings != nil {
			touched = append(touched, s)
		}
	}
	return shards, touched, err
}

// cover is until when a certificate, and a key of it, is kept out: the latest end, by both.
type cover map[[2]string]string

func (c cover) add(e Entry) {
	for _, key := range []string{"", shortKey(e.Key)} {
		of := [2]string{e.Certificate, key}
		c[of] = max(c[of], e.end())
	}
}

func (c cover) covers(e Entry) bool { return c[[2]string{e.Certificate, shortKey(e.Key)}] >= e.end() }

// size is what the entry takes of a literal, in bytes.
func (e Entry) size() int {
	text, err := e.text()
	if err != nil { // never held
		return 0
	}
	return len(line(e.Certificate, text)) + len(",\n")
}

// load is how full a policy is.
type load struct {
	limit          int // bytes of one literal at most
	bytes, entries int
	literals       map[string]int // in bytes, by the names of variables
}

func (l *load) fits(size int, literal string) bool {
	return l.entries < maxEntries && l.bytes+size <= maxPolicy && l.literals[literal]+size <= l.limit
}

func (l *load) add(e Entry) {
	if l.literals == nil {
		l.literals = map[string]int{}
	}
	size := e.size()
	l.literals[e.list()] += size
	l.bytes, l.entries = l.bytes+size, l.entries+1
}

// save writes what differs from the cluster: for each shard the binding first, which has no
// effect without its policy. So there is no moment in which a policy has no binding.
func (l Ledger) save(ctx context.Context, shards []Shard, bindings map[string]Object) error {
	for _, s := range shards {
		switch old := bindings[s.Name]; {
		case old == nil:
			if err := l.API.Create(ctx, s.Binding()); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		case !binds(old, s):
			next := Object{"metadata": old["metadata"], "apiVersion": apiVersion, "kind": bindingKind,
				"spec": s.Binding()["spec"]}
			if err := l.API.Replace(ctx, next); err != nil {
				return err
			}
		}
		var err error
		switch {
		case s.object == nil:
			err = l.API.Create(ctx, s.Policy())
		case s.changed():
			err = l.API.Replace(ctx, s.rewritten())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package revocation

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// fake is an API that keeps objects. It counts versions as an API server does.
type fake struct {
	mu      sync.Mutex
	objects map[string]Object // by kind and name
	version int
	// before, if set, is called ahead of each write and may fail it; after is called when
	// one is done.
	before func() error
	after  func()
	listed func() // called at each List, if set
}

var errKilled = errors.New("killed")

func of(o Object) string { return fmt.Sprint(o["kind"], "/", at(o, "metadata", "name")) }

func (f *fake) List(_ context.Context, _, kind string) (all []Object, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listed != nil {
		f.listed()
	}
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		if strings.HasPrefix(name, kind+"/") {
			all = append(all, clone(f.objects[name]))
		}
	}
	return all, nil
}

func clone(o Object) (c Object) {
	b, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		panic(err)
	}
	return c
}

func (f *fake) write(o Object, judge func(old Object) error) error {
	if f.before != nil {
		if err := f.before(); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := judge(f.objects[of(o)]); err != nil {
		return err
	}
	f.version++
	o = clone(o)
	o["metadata"].(Object)["resourceVersion"] = fmt.Sprint(f.version)
	f.objects[of(o)] = o
	if f.after != nil {
		f.after()
	}
	return nil
}

func (f *fake) Create(_ context.Context, o Object) error {
	return f.write(o, func(old Object) error {
		if old != nil {
			return apierrors.NewAlreadyExists(schema.GroupResource{}, of(o))
		}
		return nil
	})
}

func (f *fake) Replace(_ context.Context, o Object) error {
	return f.write(o, func(old Object) error {
		if at(old, "metadata", "resourceVersion") != at(o, "metadata", "resourceVersion") {
			return apierrors.NewConflict(schema.GroupResource{}, of(o), errors.New("changed"))
		}
		return nil
	})
}

// enforced is what the API refuses: the entries of policies that have their binding.
func (f *fake) enforced() map[string]bool {
	all := map[string]bool{}
	for name, o := range f.objects {
		if s := shardOf(o); strings.HasPrefix(name, policyKind) && s.Err == nil && binds(f.objects[bindingKind+"/"+s.Name], s) {
			for _, e := range s.Entries {
				all[e.Certificate] = true
			}
		}
	}
	return all
}

func entry(n int) Entry {
	return Entry{Certificate: fmt.Sprintf("%064x", n), Key: fmt.Sprintf("%064x", n+1), User: "jane",
		NotAfter: time.Unix(2_000_000_000, 0).UTC(), Reason: `a "quoted" \ reason <&>`, By: "desk", At: time.Unix(1_900_000_000, 0).UTC()}
}

var now = time.Unix(1_950_000_000, 0)

func newLedger() (Ledger, *fake) {
	f := &fake{objects: map[string]Object{}}
	return Ledger{API: f, limit: 2000}, f
}

func listOf(t *testing.T, l Ledger) (all []Entry) {
	t.Helper()
	list, err := l.Read(t.Context())
	if err == nil {
		err = list.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	for e := range list.All() {
		all = append(all, e)
	}
	return all
}

// TestLedger: entries come back from the policies as they were, once each, until they are
// lifted or their certificate has ended.
func TestLedger(t *testing.T) {
	l, _ := newLedger()
	unending := entry(3)
	unending.NotAfter = time.Time{}
	want := []Entry{entry(1), entry(2), unending}
	for range 2 {
		if shards, err := l.Revoke(t.Context(), now, want...); err != nil || len(shards) != 1 {
			t.Fatalf("%d shards, %v", len(shards), err)
		}
		if got := listOf(t, l); !slices.Equal(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if _, err := l.Lift(t.Context(), now, entry(1).Certificate, entry(9).Certificate); !errors.Is(err, ErrNotRevoked) ||
		len(listOf(t, l)) != 3 {
		t.Errorf("one that is not on the list: %v", err)
	}
	if _, err := l.Lift(t.Context(), now, entry(1).Certificate); err != nil || !slices.Equal(listOf(t, l), want[1:]) {
		t.Errorf("%v: left %+v", err, listOf(t, l))
	}
	// what has ended goes with the next write, and comes to no list
	if _, err := l.Revoke(t.Context(), entry(2).NotAfter, entry(4)); err != nil ||
		!slices.Equal(listOf(t, l), []Entry{unending}) {
		t.Errorf("%v: left %+v", err, listOf(t, l))
	}
	if _, err := l.Revoke(t.Context(), now, entry(6)); err != nil {
		t.Fatal(err)
	}
	closed := Settings{FailClosed: true, Spared: "kubehsm:rescue"}
	if _, err := l.Configure(t.Context(), now, closed); err != nil {
		t.Fatal(err)
	}
	list, err := l.Read(t.Context())
	if err != nil || list.Settings != closed || list.Err() != nil {
		t.Errorf("%+v, %v, %v", list.Settings, err, list.Err())
	}
	if e, ok := list.Find("", entry(6).Key); !ok || e != entry(6) {
		t.Errorf("by its key: %+v", e)
	}
	if _, ok := list.Find("", ""); ok {
		t.Error("nothing was found")
	}
	if _, err := l.Revoke(t.Context(), now, Entry{Certificate: "beef"}); err == nil {
		t.Error("a malformed fingerprint is on the list")
	}
}

// TestOwnWords: an entry keeps its author's words. What another asks for about the same certificate is an entry of its
// own where it says more, for longer or with a key, and nothing where it does not. One that was first blocks none.
func TestOwnWords(t *testing.T) {
	l, f := newLedger()
	with := func(by string, change func(*Entry)) Entry { e := entry(1); e.By = by; change(&e); return e }
	admins := with("admin", func(e *Entry) { e.Key, e.NotAfter = "", now.Add(time.Hour).UTC() })
	wrong := with("jill", func(e *Entry) { e.Key, e.NotAfter = entry(7).Key, now.Add(time.Minute).UTC() })
	right := with("jack", func(*Entry) {})
	less := with("joe", func(e *Entry) { e.Key, e.NotAfter = "", now.Add(time.Minute/2) })
	fraction := with("jack", func(e *Entry) { e.NotAfter, e.Key = e.NotAfter.Add(-time.Nanosecond), strings.ToUpper(e.Key) })
	all := []Entry{admins, wrong, right, less, fraction}
	for range 2 {
		for _, some := range [][]Entry{all, all[:2], all[3:]} {
			if _, err := l.Revoke(t.Context(), now, some...); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := listOf(t, l); !slices.Equal(got, []Entry{admins, wrong, right}) {
		t.Fatalf("the list is %+v", got)
	}
	list, err := l.Read(t.Context())
	if err != nil || len(list.Shards) != 1 || len(f.enforced()) != 1 {
		t.Errorf("%d policies, %v", len(list.Shards), err)
	}
	if e, err := list.Named(admins.Certificate); err != nil || e != admins {
		t.Errorf("by its fingerprint: %+v, %v", e, err)
	}
	if e, ok := list.Find("", right.Key); !ok || e != right {
		t.Errorf("by the right key: %+v", e)
	}
	if _, err := l.Revoke(t.Context(), now.Add(2*time.Minute), entry(2)); err != nil ||
		!slices.Equal(listOf(t, l), []Entry{admins, right, entry(2)}) {
		t.Errorf("%v: once one has ended: %+v", err, listOf(t, l))
	}
	if _, err := l.Lift(t.Context(), now, admins.Certificate); err != nil || !slices.Equal(listOf(t, l), []Entry{entry(2)}) {
		t.Errorf("%v: left %+v", err, listOf(t, l))
	}
}

// TestCovers: a list covers an entry by one that has the key and ends no earlier.
func TestCovers(t *testing.T) {
	with := func(change func(*Entry)) Entry { e := entry(1); change(&e); return e }
	shorter := with(func(e *Entry) { e.NotAfter = e.NotAfter.Add(-time.Hour) })
	never := with(func(e *Entry) { e.NotAfter = time.Time{} })
	keyless := with(func(e *Entry) { e.Key = "" })
	for name, c := range map[string]struct {
		e, o Entry
		want bool
	}{
		"itself": {entry(1), entry(1), true}, "another": {entry(1), entry(2), false},
		"for less": {entry(1), shorter, true}, "for longer": {shorter, entry(1), false},
		"for ever": {entry(1), never, false}, "which is for ever": {never, entry(1), true}, "both for ever": {never, never, true},
		"without a key": {entry(1), keyless, true}, "which has a key": {keyless, entry(1), false},
		"in other words": {entry(1), with(func(e *Entry) { e.Reason, e.By = "", "jill" }), true},
	} {
		if got := (List{Shards: []Shard{{Entries: []Entry{c.e}}}}).Covers(c.o); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestAwait: somebody else writes the same policy before the API server has looked at it. What counts is whether
// the later state still has what was asked for.
func TestAwait(t *testing.T) {
	for what, c := range map[string]struct {
		write func(l Ledger) ([]Shard, error)
		later func(l Ledger) ([]Shard, error) // somebody else
		want  error
	}{
		"nobody else":         {want: nil},
		"another certificate": {later: func(l Ledger) ([]Shard, error) { return l.Revoke(t.Context(), now, entry(3)) }},
		"another's lifted":    {later: func(l Ledger) ([]Shard, error) { return l.Lift(t.Context(), now, entry(1).Certificate) }},
		"lifted again": {want: ErrNotEnforced,
			later: func(l Ledger) ([]Shard, error) { return l.Lift(t.Context(), now, entry(2).Certificate) }},
		"lifted, and another revoked": {
			write: func(l Ledger) ([]Shard, error) { return l.Lift(t.Context(), now, entry(1).Certificate) },
			later: func(l Ledger) ([]Shard, error) { return l.Revoke(t.Context(), now, entry(3)) }},
		"lifted, and revoked anew": {want: ErrNotEnforced,
			write: func(l Ledger) ([]Shard, error) { return l.Lift(t.Context(), now, entry(1).Certificate) },
			later: func(l Ledger) ([]Shard, error) {
				anew := entry(1)
				anew.By = "another desk"
				return l.Revoke(t.Context(), now, anew)
			}},
		"another certificate, and no binding": {want: ErrNotEnforced, later: func(l Ledger) ([]Shard, error) {
			f, _ := l.API.(*fake)
			shards, err := l.Revoke(t.Context(), now, entry(3))
			delete(f.objects, bindingKind+"/"+PolicyPrefix+"1")
			return shards, err
		}},
		"settings, and a certificate": {
			write: func(l Ledger) ([]Shard, error) { return l.Configure(t.Context(), now, Settings{FailClosed: true}) },
			later: func(l Ledger) ([]Shard, error) { return l.Revoke(t.Context(), now, entry(3)) }},
		"settings, and others": {want: ErrNotEnforced,
			write: func(l Ledger) ([]Shard, error) { return l.Configure(t.Context(), now, Settings{FailClosed: true}) },
			later: func(l Ledger) ([]Shard, error) {
				return l.Configure(t.Context(), now, Settings{Spared: "kubehsm:staff"})
			}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, f := newLedger()
				must := func(s []Shard, err error) []Shard {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				must(l.Revoke(t.Context(), now, entry(1)))
				before := shardOf(f.objects[policyKind+"/"+PolicyPrefix+"1"])
				if c.write == nil {
					c.write = func(l Ledger) ([]Shard, error) { return l.Revoke(t.Context(), now, entry(2)) }
				}
				mine := must(c.write(l))
				if c.later != nil {
					must(c.later(l))
				}
				began, reads := time.Now(), 0
				f.listed = func() { reads++ }
				err := l.Await(t.Context(), mine, func(_ context.Context, name string) error {
					enforced := before
					if time.Since(began) >= time.Second { // until then the API server knows of neither
						enforced = shardOf(f.objects[policyKind+"/"+PolicyPrefix+"1"])
					}
					if name != enforced.ProbeName() {
						return errors.New("another probe")
					}
					return errors.New(inForce + enforced.Revision())
				})
				if !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if c.later == nil && reads > 0 || reads > 2 { // policies and bindings
					t.Errorf("the list was read in %d requests", reads)
				}
			})
		})
	}
}

// TestYears: an end beyond the years that can be written is none. The policy stays readable.
func TestYears(t *testing.T) {
	l, _ := newLedger()
	far, never := entry(1), entry(1)
	far.NotAfter, never.NotAfter = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -14*60*60)), time.Time{}
	for range 2 {
		if _, err := l.Revoke(t.Context(), now, far); err != nil {
			t.Fatal(err)
		}
		if got := listOf(t, l); !slices.Equal(got, []Entry{never}) {
			t.Errorf("left %+v", got)
		}
	}
}

// TestShards: a list that does not fit into one policy takes several, and what is added goes
// where there is room.
func TestShards(t *testing.T) {
	l, f := newLedger()
	var all []Entry
	for n := range 40 {
		all = append(all, entry(n))
	}
	if _, err := l.Revoke(t.Context(), now, all...); err != nil {
		t.Fatal(err)
	}
	list, err := l.Read(t.Context())
	if err != nil || len(list.Shards) < 3 || len(f.enforced()) != len(all) {
		t.Fatalf("%d shards, %d in force, %v", len(list.Shards), len(f.enforced()), err)
	}
	for _, s := range list.Shards {
		for name, text := range s.lists() {
			if len(text) > l.limit+8 {
				t.Errorf("%s of %s has %d bytes", name, s.Name, len(text))
			}
		}
	}
	first := list.Shards[0]
	if _, err := l.Lift(t.Context(), now, first.Entries[0].Certificate); err != nil {
		t.Fatal(err)
	}
	shards, err := l.Revoke(t.Context(), now, entry(200))
	if err != nil || len(shards) != 1 || shards[0].Name != first.Name {
		t.Errorf("it is in %v, %v", shards[0].Name, err)
	}
}

// TestSettingsFirst: settings that are chosen before anything is revoked are kept.
func TestSettingsFirst(t *testing.T) {
	l, f := newLedger()
	want := Settings{FailClosed: true, Spared: "kubehsm:rescue"}
	if shards, err := l.Configure(t.Context(), now, want); err != nil || len(shards) != 1 {
		t.Fatalf("%d shards, %v", len(shards), err)
	}
	if shards, err := l.Revoke(t.Context(), now, entry(1)); err != nil || len(shards) != 1 || shards[0].Name != PolicyPrefix+"1" {
		t.Fatalf("%+v, %v", shards, err)
	}
	for _, group := range []string{"system:authenticated", "system:unauthenticated", "system:masters", "dev", "kubehsm:"} {
		if _, err := l.Configure(t.Context(), now, Settings{Spared: group}); !errors.Is(err, ErrSpared) {
			t.Errorf("%s: %v", group, err)
		}
	}
	list, err := l.Read(t.Context())
	if err != nil || list.Settings != want || list.Err() != nil || len(list.Shards) != 1 || len(f.enforced()) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestAuthorizer: every revoked certificate is in one webhook's expression, none of which is
// longer than the API server compiles. An empty list has a webhook too.
func TestAuthorizer(t *testing.T) {
	for n, webhooks := range map[int]int{0: 1, 1: 1, maxWebhookIDs: 1, maxWebhookIDs + 1: 2, 20_000: 20} {
		var s Shard
		for i := range n {
			s.Entries = append(s.Entries, entry(i), entry(i)) // one may be on two shards
		}
		var got struct {
			Authorizers []struct {
				Type, Name string
				Webhook    struct{ MatchConditions []struct{ Expression string } }
			}
		}
		if err := yaml.Unmarshal([]byte(List{Shards: []Shard{s}}.Authorizer()), &got); err != nil {
			t.Fatal(err)
		}
		ids := 0
		for i, a := range got.Authorizers {
			if a.Type != "Webhook" {
				continue
			}
			if a.Name != fmt.Sprint(PolicyPrefix, i+1) {
				t.Errorf("%d: webhook %d is %s", n, i, a.Name)
			}
			for _, c := range a.Webhook.MatchConditions {
				ids += strings.Count(c.Expression, CertificatePrefix)
				if len(c.Expression) >= 100_000 {
					t.Errorf("%d: an expression of %d characters", n, len(c.Expression))
				}
			}
		}
		if len(got.Authorizers) != webhooks+2 || ids != n {
			t.Errorf("%d: %d authorizers with %d certificates", n, len(got.Authorizers), ids)
		}
	}
}

// TestLiftAgain: what was on the list at the first try is lifted, also if another writer takes
// it off before the next one. What is revoked anew before the next one stays.
func TestLiftAgain(t *testing.T) {
	l, f := newLedger()
	if _, err := l.Revoke(t.Context(), now, entry(1), entry(2)); err != nil {
		t.Fatal(err)
	}
	f.before = func() error {
		f.before = nil
		_, err := l.Lift(t.Context(), now, entry(1).Certificate)
		return err
	}
	if _, err := l.Lift(t.Context(), now, entry(1).Certificate); err != nil || len(listOf(t, l)) != 1 {
		t.Errorf("%v, left %+v", err, listOf(t, l))
	}
	anew := entry(2)
	anew.By = "another" // in the same second
	f.before = func() error {
		f.before = nil
		if _, err := l.Lift(t.Context(), now, anew.Certificate); err != nil {
			return err
		}
		_, err := l.Revoke(t.Context(), now, anew)
		return err
	}
	if _, err := l.Lift(t.Context(), now, anew.Certificate); err != nil || !slices.Equal(listOf(t, l), []Entry{anew}) {
		t.Errorf("revoked anew meanwhile: %v, left %+v", err, listOf(t, l))
	}
	// without a time nothing has ended, and an entry's hash has one form
	if _, err := l.Revoke(t.Context(), time.Time{}, entry(3)); err != nil || len(listOf(t, l)) != 2 {
		t.Errorf("%v, left %+v", err, listOf(t, l))
	}
	if _, err := l.Revoke(t.Context(), now, Entry{Certificate: strings.Repeat("AB", 32)}); err == nil {
		t.Error("a hash in capital letters is on the list")
	}
}

// TestTogether: several who write at once lose no entry.
func TestTogether(t *testing.T) {
	l, f := newLedger()
	var wait sync.WaitGroup
	for n := range 8 {
		wait.Go(func() {
			for i := range 5 {
				if _, err := l.Revoke(t.Context(), now, entry(100*n+i)); err != nil {
					t.Error(err)
				}
			}
			if _, err := l.Lift(t.Context(), now, entry(100*n).Certificate); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := len(f.enforced()); got != 32 {
		t.Errorf("%d entries are in force, want 32", got)
	}
}

// hashed is an entry as they are in life: fingerprints begin with any digit.
func hashed(n int) Entry {
	e := entry(n)
	e.Certificate = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, n)))
	return e
}

// TestFull: 10,000 entries take few policies, none of which is too large for etcd or has an
// expression that is too long for the API server.
func TestFull(t *testing.T) {
	f := &fake{objects: map[string]Object{}}
	l := Ledger{API: f}
	var all []Entry
	for n := range 10_000 {
		all = append(all, hashed(n))
	}
	if shards, err := l.Revoke(t.Context(), now, all...); err != nil || len(shards) > 2 {
		t.Errorf("%d policies, %v", len(shards), err)
	}
	if n := len(f.enforced()); n != len(all) {
		t.Errorf("%d are in force", n)
	}
	for name, o := range f.objects {
		size := 0 // bytes in etcd, which does not have it as JSON
		for _, list := range []string{"variables", "matchConditions"} {
			expressions, _ := at(o, "spec", list).([]any)
			for _, x := range expressions {
				text := x.(Object)["expression"].(string)
				if size += len(text); len(text) >= 100_000 {
					t.Errorf("%s: an expression of %d characters", name, len(text))
				}
			}
		}
		if size > 1_480_000 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}

// TestNamed: a writer that may update the named policies only makes no other, and leaves one that an admin has made
// as it is. What has no room fails, what has is written, and all that was in force stays.
func TestNamed(t *testing.T) {
	l, f := newLedger()
	l.Named = true
	var all []Entry
	for n := range 400 {
		all = append(all, entry(n))
	}
	if _, err := l.Revoke(t.Context(), now, all...); !errors.Is(err, ErrFull) {
		t.Fatalf("more than there is room for: %v", err)
	}
	full := f.enforced()
	if list, err := l.Read(t.Context()); err != nil || len(list.Shards) != NamedPolicies || len(full) == 0 || len(full) >= len(all) {
		t.Fatalf("%d policies, %d in force, %v", len(list.Shards), len(full), err)
	}
	admin := Ledger{API: f, limit: l.limit}
	if shards, err := admin.Revoke(t.Context(), now, all[len(all)-1]); err != nil || len(shards) != 1 ||
		shards[0].Name != fmt.Sprint(PolicyPrefix, NamedPolicies+1) {
		t.Fatalf("an admin: %+v, %v", shards, err)
	}
	f.before = func() error { return errKilled }
	if shards, err := l.Revoke(t.Context(), now, all[0], all[len(all)-1]); err != nil || len(shards) != 2 {
		t.Errorf("what is on the list: %+v, %v", shards, err)
	}
	f.before = nil
	if _, err := l.Revoke(t.Context(), now, all...); !errors.Is(err, ErrFull) || len(f.enforced()) != len(full)+1 {
		t.Errorf("%d in force, %v", len(f.enforced()), err)
	}
	late := entry(999)
	late.NotAfter = late.NotAfter.Add(time.Hour)
	if _, err := l.Revoke(t.Context(), all[0].NotAfter, late); err != nil || !f.enforced()[late.Certificate] {
		t.Errorf("once the others have ended: %v", err)
	}
}

// TestKilled: whichever write is the last, what was in force stays in force, and the same
// command finishes the work.
func TestKilled(t *testing.T) {
	var before, added []Entry
	for n := range 12 {
		before = append(before, entry(n))
	}
	for n := range 12 {
		added = append(added, entry(1000+n))
	}
	for name, do := range map[string]func(context.Context, Ledger) error{
		"revoke": func(ctx context.Context, l Ledger) error { _, err := l.Revoke(ctx, now, added...); return err },
		"lift": func(ctx context.Context, l Ledger) error {
			_, err := l.Lift(ctx, now, before[0].Certificate, before[11].Certificate)
			return err
		},
		"configure": func(ctx context.Context, l Ledger) error {
			_, err := l.Configure(ctx, now, Settings{FailClosed: true})
			return err
		},
		"hold": func(ctx context.Context, l Ledger) error {
			_, err := l.Hold(ctx, now, func(context.Context, List) ([]Entry, error) { return added, nil })
			return err
		},
	} {
		last := false
		for writes := 0; !last; writes++ {
			l, f := newLedger()
			if _, err := l.Revoke(t.Context(), now, before...); err != nil {
				t.Fatal(err)
			}
			stays := f.enforced()
			if name == "lift" {
				delete(stays, before[0].Certificate)
				delete(stays, before[11].Certificate)
			}
			left := writes
			f.before = func() error {
				if left--; left < 0 {
					return errKilled
				}
				return nil
			}
			f.after = func() {
				got := f.enforced()
				for c := range stays {
					if !got[c] {
						t.Fatalf("%s, after a write: %s is not in force", name, c)
					}
				}
			}
			err := do(t.Context(), l)
			if last = err == nil; !last && !errors.Is(err, errKilled) {
				t.Fatalf("%s: %v", name, err)
			}
			f.before = nil
			if err := do(t.Context(), l); err != nil && !errors.Is(err, ErrNotRevoked) {
				t.Errorf("%s, again after %d writes: %v", name, writes, err)
			}
		}
	}
}

// TestMeddled: a policy that somebody has changed is named. Its rules are put right by the
// next write, its list is not overwritten if it cannot be read, and others take new entries.
func TestMeddled(t *testing.T) {
	policy, binding := policyKind+"/"+PolicyPrefix+"1", bindingKind+"/"+PolicyPrefix+"1"
	for name, c := range map[string]struct {
		meddle func(f *fake)
		heals  bool
	}{
		"rules":          {func(f *fake) { f.objects[policy]["spec"].(Object)["failurePolicy"] = "Fail" }, true},
		"no binding":     {func(f *fake) { delete(f.objects, binding) }, true},
		"only a warning": {func(f *fake) { f.objects[binding]["spec"].(Object)["validationActions"] = []any{"Warn"} }, true},
		"rules for less": {func(f *fake) {
			f.objects[policy]["spec"].(Object)["matchConstraints"].(Object)["excludeResourceRules"] = []any{Object{"resources": []any{"*"}}}
		}, true},
		"parameters":   {func(f *fake) { f.objects[policy]["spec"].(Object)["paramKind"] = Object{"kind": "ConfigMap"} }, true},
		"elsewhere":    {func(f *fake) { f.objects[binding]["spec"].(Object)["matchResources"] = Object{} }, true},
		"no variables": {func(f *fake) { delete(f.objects[policy]["spec"].(Object), "variables") }, false},
		"other entries": {func(f *fake) {
			f.objects[policy]["spec"].(Object)["variables"].([]any)[2].(Object)["expression"] = `{"beef": ["a"]}`
		}, false},
		"no date": {func(f *fake) {
			v := f.objects[policy]["spec"].(Object)["variables"].([]any)[2].(Object)
			v["expression"] = strings.Replace(v["expression"].(string), "2033", "then", 1)
		}, false},
		"no label": {func(f *fake) { delete(f.objects[policy]["metadata"].(Object), "labels") }, true},
		"settings": {func(f *fake) {
			f.objects[policy]["metadata"].(Object)["annotations"] = Object{settingsNote: "{"}
		}, true},
	} {
		l, f := newLedger()
		if _, err := l.Revoke(t.Context(), now, entry(1)); err != nil {
			t.Fatal(err)
		}
		c.meddle(f)
		was := clone(f.objects[policy])
		list, err := l.Read(t.Context())
		if err != nil || list.Err() == nil || !strings.Contains(list.Err().Error(), PolicyPrefix+"1") {
			t.Errorf("%s: %v, %v", name, err, list.Err())
		}
		if _, err := l.Revoke(t.Context(), now, entry(2)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if list, err = l.Read(t.Context()); err != nil || (list.Err() == nil) != c.heals {
			t.Errorf("%s, afterwards: %v, %v", name, err, list.Err())
		}
		in := f.enforced()
		if !in[entry(2).Certificate] || c.heals != in[entry(1).Certificate] {
			t.Errorf("%s: in force are %v", name, in)
		}
		if !c.heals && fmt.Sprint(was) != fmt.Sprint(f.objects[policy]) {
			t.Errorf("%s: the unreadable policy was changed", name)
		}
	}
}

func TestParseFingerprint(t *testing.T) {
	want := strings.Repeat("ab", 32)
	colons := strings.TrimSuffix(strings.Repeat("AB:", 32), ":")
	for _, s := range []string{want, colons, CertificatePrefix + want, "sha256 Fingerprint=" + colons, "SHA256:" + want, " " + want + "\n"} {
		if got, err := ParseFingerprint(s); err != nil || got != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", want[2:], want + "ab", strings.Repeat("zz", 32), CertificatePrefix} {
		if got, err := ParseFingerprint(s); err == nil {
			t.Errorf("%q is %s", s, got)
		}
	}
	if Used(map[string][]string{CredentialID: {"JTI=1", CertificatePrefix + want}}) != want || Used[[]string](nil) != "" {
		t.Error("the certificate in use")
	}
}

// TestWords: what people write cannot break the policy or the message.
func TestWords(t *testing.T) {
	l, _ := newLedger()
	e := entry(1)
	e.Reason = "two\nlines \u2028 \x00 " + strings.Repeat("x", 2*maxWords) + "\xff"
	if _, err := l.Revoke(t.Context(), now, e); err != nil {
		t.Fatal(err)
	}
	got := listOf(t, l)[0].Reason
	if !strings.HasPrefix(got, "two lines x") || len([]rune(got)) != maxWords || !strings.HasSuffix(got, "…") {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		err     error
		force   string
		refusal bool
	}{
		{nil, "", false}, {errors.New("no"), "", false},
		{errors.New("ValidatingAdmissionPolicy 'kubehsm-revoked-1' with binding: " + inForce + "abc"), "abc", false},
		{errors.New("ValidatingAdmissionPolicy 'kubehsm-revoked-1' with binding: the client certificate"), "", true},
	} {
		if InForce(c.err) != c.force || IsRefusal(c.err) != c.refusal {
			t.Errorf("%v: %q, %v", c.err, InForce(c.err), IsRefusal(c.err))
		}
	}
}

package enroll

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/session"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// second inserts another card.
func second(w *flowtest.World) *hsmtest.FakeToken {
	return w.Env.Drivers[0].(*hsmtest.Fake).Add(hsmtest.FakeOptions{Label: "spare"})
}

func load(t *testing.T, w *flowtest.World, name string) enrollment.Enrollment {
	t.Helper()
	e, err := w.Env.Enrollments().Load(name)
	must.OK(t, err)
	return e
}

// TestSpare: a second token gets a key for the same user, with the policy of the first, and the kubeconfig
// stays as it is. Either signs in by the one context, and each renews its own certificate.
func TestSpare(t *testing.T) {
	w := enrolled(t)
	agent := session.Agent{Env: w.Env}
	nodes := consent.Policy{Mode: consent.Rules, Rules: []consent.Rule{{Resources: []string{"nodes"}}}}
	if _, err := agent.SetConsent(t.Context(), "prod-hsm", nodes,
		hsmtest.Typing(t, w.Card.PIN())); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(w.Env.Kubeconfig)
	must.OK(t, err)
	n := NewEnroller(w.Env)
	if _, err := n.Review(t.Context(), enrolling.Options{Spare: true}); !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("with the first token alone: %v", err)
	}
	card := second(w)
	rev, err := n.Review(t.Context(), enrolling.Options{Spare: true, Name: "prod-hsm"})
	must.OK(t, err)
	if rev.Token.Serial != card.Info().Serial || rev.KubeconfigDiff != "" ||
		!strings.Contains(rev.Commands[0], "kubehsm enroll --name prod-hsm --spare --token ") {
		t.Errorf("the review is of %s, with the diff %q and the command %s", rev.Token.Serial, rev.KubeconfigDiff,
			rev.Commands[0])
	}
	r, err := n.Enroll(t.Context(), rev.Options, hsmtest.Typing(t, card.PIN()), nil)
	must.OK(t, err)
	if r.Name != "prod-hsm-spare" || r.Context != "prod-hsm" || r.User != "jane" {
		t.Errorf("the result is %+v", r)
	}
	after, err := os.ReadFile(w.Env.Kubeconfig)
	if err != nil || string(after) != string(before) {
		t.Errorf("the kubeconfig is %s, was %s (%v)", after, before, err)
	}
	first := load(t, w, "prod-hsm")
	spare, err := w.Env.Enrollments().Load("prod-hsm-spare")
	if err != nil || spare.SpareOf != "prod-hsm" || spare.KeyHash == first.KeyHash || spare.User != first.User ||
		!slices.Equal(spare.Groups, first.Groups) || spare.Cluster.Server != first.Cluster.Server {
		t.Errorf("the spare is %+v, %v", spare, err)
	}
	if c, err := agent.Consent("prod-hsm-spare"); err != nil || c.Policy().String() != nodes.String() ||
		c.Problem != nil {
		t.Errorf("the spare's policy is %s, %v, %v", c.Policy(), c.Problem, err)
	}
	must.OK(t, token.LockAgent(t.Context(), w.Env))
	w.Card.Unplug()
	if _, err := NewRenewer(w.Env).Renew(t.Context(), "prod-hsm-spare", RenewOptions{}, hsmtest.Typing(t, card.PIN()),
		nil); err != nil {
		t.Errorf("the spare's renewal: %v", err)
	}
	if again, err := w.Env.Enrollments().Load("prod-hsm-spare"); err != nil || again.SpareOf != "prod-hsm" {
		t.Errorf("after the renewal the spare is %+v, %v", again, err)
	}
	all, err := NewRenewer(w.Env).Expiring(time.Now())
	if err != nil || len(all) != 2 {
		t.Errorf("certificates that end: %+v, %v", all, err)
	}
}

// TestSpareRefused: what would be no spare is refused before anything is made.
func TestSpareRefused(t *testing.T) {
	w := enrolled(t)
	card := second(w)
	n := NewEnroller(w.Env)
	for what, tc := range map[string]struct {
		o    enrolling.Options
		says string
	}{
		"on the same token": {enrolling.Options{Token: w.Card.Info().URI()}, "on this token already"},
		"for another user":  {enrolling.Options{User: "joe"}, "for the same user"},
		"of nothing":        {enrolling.Options{Name: "other"}, "no such enrollment"},
		"for other groups":  {enrolling.Options{Groups: []string{"admins"}}, "for the same user and groups"},
		"on a key that is there": {enrolling.Options{Key: w.Generate(hsm.GenerateOptions{Slot: "9c"}).URI},
			"on this token already"},
	} {
		tc.o.Spare = true
		if _, err := n.Review(t.Context(), tc.o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if card.Signatures() != 0 {
		t.Error("the token has signed")
	}
}

// TestSpareName: a spare that was begun goes on, and a further one has a name of its own.
func TestSpareName(t *testing.T) {
	w := enrolled(t)
	n := NewEnroller(w.Env)
	want := func(name string) {
		t.Helper()
		if got, err := spares(n).nextName("prod-hsm"); err != nil || got != name {
			t.Errorf("the next spare is %q, %v, not %q", got, err, name)
		}
	}
	want("prod-hsm-spare")
	begun := &enrolling.Progress{Options: enrolling.Options{Name: "prod-hsm-spare", SpareOf: "prod-hsm",
		Token: w.Card.Info().URI()}}
	save := func() {
		t.Helper()
		must.OK(t, enrolling.NewStore(w.Env).Save(begun))
	}
	save()
	want("prod-hsm-spare")
	begun.Done = begun.Options.Steps()
	save()
	want("prod-hsm-spare-2")
	if long, err := spares(n).nextName(strings.Repeat("x", 63)); err != nil || len(long) > 63 ||
		!strings.HasSuffix(long, "-spare") {
		t.Errorf("%q, %v", long, err)
	}
}

// TestSpareLost: the key on a lost token is taken out, whichever of the two it is, with the other in hand. The
// context stays, and so does the strictest policy.
func TestSpareLost(t *testing.T) {
	for what, lost := range map[string]func(w *flowtest.World, spare *hsmtest.FakeToken) (gone, left *hsmtest.FakeToken){
		"the first": func(w *flowtest.World, spare *hsmtest.FakeToken) (gone, left *hsmtest.FakeToken) {
			return w.Card, spare
		},
		"the spare": func(w *flowtest.World, spare *hsmtest.FakeToken) (gone, left *hsmtest.FakeToken) {
			return spare, w.Card
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := enrolled(t)
			gone, left := lost(w, second(w))
			if _, err := NewEnroller(w.Env).Enroll(t.Context(), enrolling.Options{Spare: true},
				hsmtest.Typing(t, w.Card.PIN()), nil); err != nil {
				t.Fatal(err)
			}
			agent, k := session.Agent{Env: w.Env}, contexts.New(w.Env)
			must.OK(t, token.LockAgent(t.Context(), w.Env))
			before, err := os.ReadFile(w.Env.Kubeconfig)
			must.OK(t, err)
			name := map[bool]string{true: "prod-hsm", false: "prod-hsm-spare"}[gone == w.Card]
			nodes := consent.Policy{Mode: consent.Rules, Rules: []consent.Rule{{Resources: []string{"nodes"}}}}
			if _, err := agent.SetConsent(t.Context(), "prod-hsm", nodes, hsmtest.Typing(t, gone.PIN())); err != nil {
				t.Fatal(err)
			}
			gone.Unplug()
			if _, err := k.Unenrollment(t.Context(), "prod-hsm", contexts.On(hsm.URI{Scheme: hsm.SchemePIV, Serial: "1"})); !errors.Is(err,
				hsm.ErrNoKey) {
				t.Errorf("of a token that has no key: %v", err)
			}
			u, err := k.Unenrollment(t.Context(), "prod-hsm", contexts.On(gone.Info().URI()))
			must.OK(t, err)
			if u.Enrollment.Name != name || len(u.Stay) != 1 || len(u.Spares) != 0 || !u.Kubeconfig.Empty() ||
				u.Lost.Fingerprint != u.Enrollment.KeyHash || u.Lost.Serial == "" || u.Lost.Words == "" || u.Lost.User != "jane" {
				t.Errorf("it would be %+v", u)
			}
			must.OK(t, k.Unenroll(t.Context(), u, hsmtest.NewScript(t, hsmtest.PIN(left.PIN())).Lax()))
			all, err := w.Env.Enrollments().List()
			if err != nil || len(all) != 1 || all[0].Name != "prod-hsm" || all[0].SpareOf != "" ||
				all[0].KeyHash != u.Stay[0].KeyHash || all[0].Consent().String() != nodes.String() {
				t.Errorf("left is %+v, %v", all, err)
			}
			after, err := os.ReadFile(w.Env.Kubeconfig)
			if err != nil || string(after) != string(before) {
				t.Errorf("the kubeconfig is %s, was %s (%v)", after, before, err)
			}
			flowtest.Agent(t, w.Env) // the one of before has ended
			if _, err := NewRenewer(w.Env).Renew(t.Context(), "prod-hsm", RenewOptions{}, hsmtest.Typing(t, left.PIN()),
				nil); err != nil {
				t.Errorf("the renewal with the token that is left: %v", err)
			}
			if begun, err := enrolling.NewStore(w.Env).All(); err != nil || len(begun) != 1 || !begun[0].Finished() {
				t.Errorf("on record is %+v, %v", begun, err)
			}
			third := w.Env.Drivers[0].(*hsmtest.Fake).Add(hsmtest.FakeOptions{Label: "next"})
			if r, err := NewEnroller(w.Env).Enroll(t.Context(), enrolling.Options{Spare: true},
				hsmtest.Typing(t, third.PIN()), nil); err != nil || r.Name != "prod-hsm-spare" {
				t.Errorf("the next spare is %q, %v", r.Name, err)
			}
			whole, err := k.Unenrollment(t.Context(), "prod-hsm", nil)
			if err != nil || len(whole.Spares) != 1 {
				t.Fatalf("the whole: %+v, %v", whole, err)
			}
			must.OK(t, k.Unenroll(t.Context(), whole, nil))
			if all, err := w.Env.Enrollments().List(); err != nil || len(all) != 0 {
				t.Errorf("left is %+v, %v", all, err)
			}
		})
	}
}

// TestSpareByTicket: the ticket for a spare is for the enrollment of its user with the same authority, whatever
// the address; another ticket is for an enrollment by itself, unless a spare is asked for.
func TestSpareByTicket(t *testing.T) {
	w := enrolled(t)
	en := load(t, w, "prod-hsm")
	pins, err := discovery.PinsOf(en.Cluster.CAData)
	must.OK(t, err)
	other := []discovery.Pin{{1}}
	for what, tc := range map[string]struct {
		name, user string
		pins       []discovery.Pin
		spare      bool
		of         string
		fails      bool
	}{
		"for a spare":         {"prod-spare", "jane", pins, false, "prod-hsm", false},
		"of another user":     {"prod-spare", "joe", pins, false, "", false},
		"of another cluster":  {"prod-spare", "jane", other, false, "", false},
		"for no spare":        {"prod", "jane", pins, false, "", false},
		"asked for":           {"prod", "jane", pins, true, "prod-hsm", false},
		"asked for in vain":   {"prod", "jane", other, true, "", true},
		"asked for, of joe's": {"prod", "joe", pins, true, "", true},
	} {
		o := enrolling.Options{Name: tc.name, User: tc.user, Spare: tc.spare,
			Join: &enrolling.Join{Endpoint: "https://10.1.1.1:6443", Pins: tc.pins}}
		if err := (spares{w.Env}).ofTicket(&o); (err != nil) != tc.fails || o.SpareOf != tc.of {
			t.Errorf("%s: a spare of %q, %v", what, o.SpareOf, err)
		}
	}
}

// TestSpareJoins: a spare's ticket ends in a key of the enrollment, at the address that the enrollment has. Without
// one the ticket's token goes nowhere.
func TestSpareJoins(t *testing.T) {
	w := enrolled(t)
	first := load(t, w, "prod-hsm")
	pins, err := discovery.PinsOf(first.Cluster.CAData)
	must.OK(t, err)
	k := testTicket(t)
	k.Pins, k.Name, k.Groups, k.Policy = pins, "prod-hsm-spare", nil, 0
	found := first.Cluster
	found.Server = k.Server
	var o enrolling.Options
	must.OK(t, o.UseTicket(k))
	o.Join.Found = &found
	card := second(w)
	r, err := NewEnroller(w.Env).Enroll(t.Context(), o, hsmtest.Typing(t, card.PIN()), nil)
	must.OK(t, err)
	spare, err := w.Env.Enrollments().Load("prod-hsm-spare")
	if err != nil || r.Name != spare.Name || spare.SpareOf != "prod-hsm" || spare.Cluster.Server != first.Cluster.Server {
		t.Errorf("joined %q: %+v, %v", r.Name, spare, err)
	}
	j, err := enrolling.NewStore(w.Env).Load("prod-hsm-spare")
	if err != nil || j.Cluster.Server != first.Cluster.Server || j.Namespace != first.Namespace {
		t.Errorf("on record: %+v, %v", j, err)
	}
	j.Options.Join, j.Cluster.Server = o.Join, ""
	if _, err := NewEnroller(w.Env).filer(t.Context(), j); err == nil || !strings.Contains(err.Error(), "no API server") ||
		!strings.Contains(hint.Of(err), "kubehsm join --name prod-hsm-spare") {
		t.Errorf("without an address: %v, hint %q", err, hint.Of(err))
	}
}

// TestSpareLostAgain: removing the first key can be repeated wherever it was cut short. The other key's renewals
// stay on record.
func TestSpareLostAgain(t *testing.T) {
	w := enrolled(t)
	second(w)
	if _, err := NewEnroller(w.Env).Enroll(t.Context(), enrolling.Options{Spare: true},
		hsmtest.Typing(t, w.Card.PIN()), nil); err != nil {
		t.Fatal(err)
	}
	store, k, on := w.Env.Enrollments(), contexts.New(w.Env), contexts.On(w.Card.Info().URI())
	first, err := store.Load("prod-hsm")
	must.OK(t, err)
	spare, err := store.Load("prod-hsm-spare")
	if err == nil {
		err = store.Renewals().Save(spare.Name, enrollment.Renewal{KeyHash: spare.KeyHash, Approver: "it"})
	}
	must.OK(t, err)
	record := filepath.Join(w.Env.Dirs.State, "enrollments", spare.Name+".json")
	text, err := os.ReadFile(record)
	must.OK(t, err)
	for range 2 {
		u, err := k.Unenrollment(t.Context(), "prod-hsm", on)
		if err == nil {
			err = k.Unenroll(t.Context(), u, hsmtest.NewScript(t, hsmtest.PIN(w.Card.PIN())).Lax())
		}
		must.OK(t, err)
		all, err := store.List()
		if err != nil || len(all) != 1 || all[0].Name != "prod-hsm" || all[0].KeyHash != spare.KeyHash {
			t.Fatalf("left is %+v, %v", all, err)
		}
		if known, err := store.Renewals().Load(all[0]); err != nil || known.Approver != "it" {
			t.Errorf("on record of its renewals is %+v, %v", known, err)
		}
		if begun, err := enrolling.NewStore(w.Env).All(); err != nil || len(begun) != 1 || begun[0].Options.Name != "prod-hsm" {
			t.Errorf("on record is %+v, %v", begun, err)
		}
		if err := os.WriteFile(record, text, 0o600); err != nil { // as if it had been killed before this one went
			t.Fatal(err)
		}
	}
	u, err := k.Unenrollment(t.Context(), "prod-hsm", on)
	if err != nil || u.Lost.Fingerprint != "" || u.Lost.User != "jane" || u.Enrollment.Name != spare.Name {
		t.Errorf("cut short, it would be %+v, %v", u, err)
	}
	if _, err := store.Certificate(first); !errors.Is(err, hsm.ErrNoCertificate) {
		t.Errorf("the certificate of the key that went: %v", err)
	}
}

package host

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/agent/auditing"
	"github.com/kubehsm/kubehsm/plugin/agent/token"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// looked has the agent look at its clusters as it does daily, and waits for that.
func (r *rig) looked() {
	r.t.Helper()
	r.mustAgent(func(a *agent) {
		a.targets.follow()
		for _, in := range []time.Duration{0, 48 * time.Hour} { // the first one begins to count
			a.renewals.sweep(context.Background(), time.Now().Add(in))
			a.renewals.work.Wait()
		}
		a.targets.follow()
	})
}

// TestFollowed: the cluster gets a second authority and a second address under a watch. The agent follows both
// while the old ones last; the watch goes on until the old address is gone, and requests go on after that without
// anybody being asked. A key that wants a touch is not used for that: its connection stays until it ends.
func TestFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		token  hsmtest.FakeOptions
		silent bool // it signs in at the new address at once
	}{
		"a key that signs by itself": {silent: true},
		"a key that wants a touch":   {token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{token: c.token})
			next := bridgetest.New(t, bridgetest.Options{Clients: r.api})
			for _, s := range []*bridgetest.Server{r.api, next} {
				s.Publish(next.URL, r.api, next)
			}
			if !c.silent {
				r.token.Touch()
			}
			s := r.mustPrepare(hsmtest.Typing(t, pin))
			sees, _, _ := r.watch(s)
			sees("before")
			signatures := r.token.Signatures()
			r.looked()
			e, err := r.store.Load("prod")
			if err != nil || e.Cluster.Server != next.URL || !slices.Equal(e.Formerly, []string{r.api.URL}) ||
				string(e.Cluster.CAData) != string(r.api.CAPEM)+string(next.CAPEM) {
				t.Fatalf("%+v, %v", e, err)
			}
			if n := r.token.Signatures() - signatures; (n == 1) != c.silent {
				t.Errorf("%d signatures", n)
			}
			sees("after")
			if code, _ := r.get(s, "/version"); code != http.StatusOK {
				t.Errorf("inside the overlap: %d", code)
			}
			if told := r.recordsOf(audit.Follow); len(told) != 1 || told[0].Outcome != audit.Granted ||
				"https://"+told[0].Server != next.URL {
				t.Errorf("on record: %+v", told)
			}
			r.api.CloseClientConnections()
			r.api.Close()
			next.Publish(next.URL, next)
			if !c.silent {
				code := http.StatusServiceUnavailable
				for code == http.StatusServiceUnavailable { // until the agent has seen that the connection has ended
					code, _ = r.get(s, "/version")
				}
				if code != http.StatusUnauthorized { // which has the program run the plugin
					t.Errorf("without a connection: %d", code)
				}
				r.token.Touch()
				r.mustPrepare(hsmtest.Typing(t, pin))
			}
			if code, _ := r.get(s, "/version"); code != http.StatusOK {
				t.Errorf("after the overlap: %d", code)
			}
			r.looked()
			if e, err := r.store.Load("prod"); err != nil || string(e.Cluster.CAData) != string(next.CAPEM) {
				t.Errorf("the old authority stays: %+v, %v", e.Cluster, err)
			}
			if code, _ := r.get(s, "/version"); code != http.StatusOK {
				t.Errorf("with the new authority: %d", code)
			}
		})
	}
}

// TestFollowedAtSignIn: a command whose connection turns out to have ended, and with it the old address, signs in at
// the new one.
func TestFollowedAtSignIn(t *testing.T) {
	r := newRig(t, rigOptions{token: hsmtest.FakeOptions{TouchPolicy: hsm.TouchAlways}})
	next := bridgetest.New(t, bridgetest.Options{Clients: r.api})
	for _, s := range []*bridgetest.Server{r.api, next} {
		s.Publish(next.URL, r.api, next)
	}
	r.token.Touch()
	s := r.mustPrepare(hsmtest.Typing(t, pin))
	r.looked()
	r.mustAgent(func(a *agent) {
		was := a.targets.current("prod") // as the command found it
		r.api.CloseClientConnections()
		r.api.Close()
		r.token.Touch()
		now, err := a.signIns.connect(context.Background(), was, auditing.Requester{Enrollment: "prod"},
			token.Use{Ask: func(context.Context, ask.Question) (ask.Answer, error) { return ask.Answer{}, nil }})
		if err != nil || now.e.Cluster.Server != next.URL || a.targets.current("prod") != now {
			t.Errorf("signed in at %+v, %v", now, err)
		}
	})
	if code, _ := r.get(s, "/version"); code != http.StatusOK {
		t.Errorf("after the sign-in: %d", code)
	}
}

// TestNotFollowed: what the cluster says and nothing proves changes nothing, is told once, and is in the status.
func TestNotFollowed(t *testing.T) {
	r := newRig(t, rigOptions{})
	other := bridgetest.New(t, bridgetest.Options{})
	s := r.mustPrepare(hsmtest.Typing(t, pin))
	path := r.dirs.State + "/enrollments/prod.json"
	before, err := os.ReadFile(path)
	check(t, err)
	for range 2 {
		r.api.Publish(other.URL, r.api, other) // where another cluster is
		other.Publish(other.URL, other)
		r.looked()
	}
	if all := r.status().Unfollowed; len(all) != 1 || all[0].Enrollment != "prod" || all[0].Problem == "" {
		t.Errorf("the status has %+v", all)
	}
	if told := r.recordsOf(audit.Follow); len(told) != 1 || told[0].Outcome == audit.Granted {
		t.Errorf("on record: %+v", told)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the enrollment is %s, %v", after, err)
	}
	if code, _ := r.get(s, "/version"); code != http.StatusOK {
		t.Errorf("the connection: %d", code)
	}
	r.api.Publish(r.api.URL, r.api)
	r.looked()
	if all := r.status().Unfollowed; len(all) != 0 {
		t.Errorf("when all is as before, the status has %+v", all)
	}
}

// TestTwoFollow: of two agents that follow a cluster at once one writes, and the other takes that over.
func TestTwoFollow(t *testing.T) {
	r := newRig(t, rigOptions{})
	next := bridgetest.New(t, bridgetest.Options{Clients: r.api})
	for _, s := range []*bridgetest.Server{r.api, next} {
		s.Publish(next.URL, r.api, next)
	}
	r.mustPrepare(hsmtest.Typing(t, pin))
	r.mustAgent(func(a *agent) {
		was := a.targets.current("prod")
		other := was.e
		other.Namespace = "changed"
		check(t, r.store.Save(other))
		a.renewals.follower.Begin(was.e, time.Now())
		a.renewals.follower.Look(context.Background(), was.e, a.renewals.wayTo(was))
	})
	if e, err := r.store.Load("prod"); err != nil || e.Namespace != "changed" || e.Cluster.Server != r.api.URL {
		t.Errorf("what another has written is %q, %s, %v", e.Namespace, e.Cluster.Server, err)
	}
	r.mustPrepare(hsmtest.Typing(t, pin))
	r.looked()
	if e, err := r.store.Load("prod"); err != nil || e.Namespace != "changed" || e.Cluster.Server != next.URL {
		t.Errorf("followed to %s, %v", e.Cluster.Server, err)
	}
}

// TestLongErrors: an error with names that somebody else chose leaves the status room for what else it says.
func TestLongErrors(t *testing.T) {
	up, err := upstream.New(upstream.Options{Log: slog.New(slog.DiscardHandler), Enrollment: enrollment.Enrollment{
		Cluster: cluster.Cluster{Server: "https://" + strings.Repeat("x", 100_000), Direct: true}}})
	check(t, err)
	defer up.Close()
	if err := up.Reach(t.Context()); err == nil {
		t.Error("it is reached")
	}
	s := &targets{all: map[string]*target{"prod": {up: up}}}
	all, _, _ := s.status()
	if n := len(all[0].LastError); n == 0 || n > 5<<10 {
		t.Errorf("an error of %d bytes", n)
	}
}

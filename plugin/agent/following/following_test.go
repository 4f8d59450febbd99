package following

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// roundTrip is a connection in a test.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answers gives each request that answer.
func answers(code int, body string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}}, nil
	}
}

// shows gives each request a cluster-info that holds a kubeconfig.
func shows(t *testing.T, kubeconfig string) roundTrip {
	t.Helper()
	b, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"data": map[string]string{"kubeconfig": kubeconfig}})
	if err != nil {
		t.Fatal(err)
	}
	return answers(http.StatusOK, string(b))
}

// follower looks at the cluster of e, and notes what a person is told.
type follower struct {
	Follower
	e    enrollment.Enrollment
	told int
}

func newFollower(e enrollment.Enrollment) *follower {
	f := &follower{e: e}
	f.Log, f.Every = slog.New(slog.DiscardHandler), 24*time.Hour
	f.Announced = func(enrollment.Enrollment) { f.told++ }
	f.Begin(e, time.Now()) // begins to count
	return f
}

// look looks at the cluster, and wants the next look to be due in next.
func (f *follower) look(t *testing.T, over http.RoundTripper, next time.Duration) {
	t.Helper()
	f.Look(t.Context(), f.e, over)
	f.mu.Lock()
	defer f.mu.Unlock()
	if in := time.Until(f.known[f.e.Name].next); in > next || in < next-time.Minute {
		t.Errorf("the next look is in %v, not in %v", in, next)
	}
}

func enrolled(at *bridgetest.Server) enrollment.Enrollment {
	return enrollment.Enrollment{Name: "prod", Cluster: cluster.Cluster{Server: at.URL, CAData: at.CAPEM},
		Key: hsm.URI{Scheme: "piv"}, KeyHash: strings.Repeat("0", 64)}
}

// TestFailedLooks: a look that fails tells a person nothing, and leaves what is known of the cluster as it was.
func TestFailedLooks(t *testing.T) {
	e := enrolled(bridgetest.New(t, bridgetest.Options{}))
	for name, over := range map[string]roundTrip{
		"unreachable": func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		"5xx":         answers(http.StatusServiceUnavailable, `{"kind":"Status"}`),
		"429":         answers(http.StatusTooManyRequests, `{"kind":"Status"}`),
		"no clusters": shows(t, "apiVersion: v1\nkind: Config\nclusters: []\n"),
		"a touch": func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("the key needs a touch: %w", hsm.ErrPINRequired)
		},
	} {
		for _, before := range []string{"", "moved, not proven"} {
			t.Run(name+", before: "+before, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFollower(e)
					f.ended(e.Name, 0, before)
					f.look(t, over, soon)
					if f.told != 0 || f.Problem(e.Name) != before {
						t.Errorf("told %v, the problem is %q", f.told, f.Problem(e.Name))
					}
				})
			})
		}
	}
}

// TestAnnounced: a change that the cluster announces is told once, and nothing follows, proven or not.
func TestAnnounced(t *testing.T) {
	for name, there := range map[string]func(*bridgetest.Server){
		"proven":                             func(*bridgetest.Server) {},
		"the new address does not prove it":  func(s *bridgetest.Server) { s.Publish(s.URL, s) },
		"the new address publishes nothing":  func(s *bridgetest.Server) { s.Info.Store(nil) },
		"the new address shows it to nobody": func(s *bridgetest.Server) { s.Info.Store(nil); s.Reject.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			old := bridgetest.New(t, bridgetest.Options{})
			fresh := bridgetest.New(t, bridgetest.Options{})
			for _, s := range []*bridgetest.Server{old, fresh} {
				s.Publish(fresh.URL, old, fresh)
			}
			there(fresh)
			f := newFollower(enrolled(old))
			for range 2 {
				f.look(t, old.Client().Transport, soon)
			}
			if f.told != 1 || f.Problem("prod") == "" {
				t.Errorf("told %d times, the problem is %q", f.told, f.Problem("prod"))
			}
			old.Publish(old.URL, old)
			f.look(t, old.Client().Transport, f.Every)
			if problem := f.Problem("prod"); problem != "" {
				t.Errorf("when all is as before, the problem is %q", problem)
			}
		})
	}
}

// TestHowOften: the first look comes after what is wanted or ten minutes, a failed one is repeated as soon as that, and
// none comes where the configuration has none.
func TestHowOften(t *testing.T) {
	e := enrolled(bridgetest.New(t, bridgetest.Options{}))
	for every, want := range map[time.Duration]time.Duration{24 * time.Hour: first, time.Second: time.Second, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			f := Follower{Every: every, Log: slog.New(slog.DiscardHandler)}
			now := time.Now()
			for _, in := range []time.Duration{0, want - 1} {
				if _, ok := f.Begin(e, now.Add(in)); ok {
					t.Errorf("every %v: looks after %v", every, in)
				}
			}
			done, ok := f.Begin(e, now.Add(want))
			if ok != (want > 0) {
				t.Errorf("every %v: looks at %t", every, ok)
			}
			if !ok {
				return
			}
			defer done()
			f.Look(t.Context(), e, answers(http.StatusServiceUnavailable, `{"kind":"Status"}`))
			if in := time.Until(f.known[e.Name].next); in > min(soon, every) {
				t.Errorf("every %v: looks again in %v", every, in)
			}
		})
	}
}

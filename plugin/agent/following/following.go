// Package following looks now and then, over connections that are open anyway, whether the clusters in
// use say of themselves that they have moved or have another authority ([discovery.Follow]). Nothing
// follows: `kubehsm kubeconfig refresh` does that, by a signature of the enrollment's key.
//
// It knows neither tokens nor targets: the agent gives it a connection for each enrollment.
package following

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// When a cluster is looked at, if [Follower.Every] is not sooner.
const (
	first   = 10 * time.Minute // after it was used first, which a look is not to delay
	soon    = time.Hour        // after a look that failed
	timeout = 30 * time.Second
)

// Follower looks at clusters. It is safe for concurrent use.
type Follower struct {
	// Every is the time from one look at a cluster to the next; below 0, there are none.
	Every time.Duration
	// Announced is told of an enrollment whose cluster announces a change, once for each.
	Announced func(e enrollment.Enrollment)
	Log       *slog.Logger

	mu    sync.Mutex
	known map[string]*look // looks by the name of the enrollment
}

// look is what came of the latest look at a cluster.
type look struct {
	running bool
	next    time.Time // time of the next one
	problem string    // what the cluster announces, "" if nothing
}

// Problem says what the cluster of the enrollment of that name announces, "" if nothing.
func (f *Follower) Problem(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.known[name]; l != nil {
		return l.problem
	}
	return ""
}

// Begin reports whether the cluster of e is to be looked at now, and keeps others from doing so until
// done is called. An enrollment that verifies by none of its own authorities is left alone.
func (f *Follower) Begin(e enrollment.Enrollment, now time.Time) (done func(), ok bool) {
	if f.Every < 0 || e.SpareOf != "" || len(e.Cluster.CAData) == 0 || e.Cluster.InsecureSkipTLSVerify {
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.known[e.Name]
	if l == nil {
		l = &look{next: now.Add(min(first, f.Every))}
		if f.known == nil {
			f.known = map[string]*look{}
		}
		f.known[e.Name] = l
	}
	if l.running || now.Before(l.next) {
		return nil, false
	}
	l.running = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		l.running = false
	}, true
}

// Look looks at the cluster of e, which [Follower.Begin] has allowed, over a connection that is in use.
func (f *Follower) Look(ctx context.Context, e enrollment.Enrollment, over http.RoundTripper) {
	u, err := discovery.Follow(ctx, e.Cluster, over, discovery.Limits{Timeout: timeout})
	switch {
	case err == nil && u.Changed():
		announced := "it announces a new address or authority"
		if u.Unproven != nil {
			announced += ", which it did not prove: " + u.Unproven.Error()
		}
		if f.ended(e.Name, soon, announced) {
			f.Announced(e)
		}
	case err == nil, errors.Is(err, discovery.ErrAnonymous), errors.Is(err, discovery.ErrNoClusterInfo):
		f.ended(e.Name, f.Every, "")
	default: // networks and servers fail daily
		f.Log.Warn("follow", "enrollment", e.Name, "error", err)
		f.ended(e.Name, soon, f.Problem(e.Name))
	}
}

// ended notes when the cluster is looked at next, and what it announces. It reports whether that is
// something else than before.
func (f *Follower) ended(name string, next time.Duration, problem string) (another bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.known[name]
	another = l.problem != problem
	l.next, l.problem = time.Now().Add(min(next, f.Every)), problem
	return another
}

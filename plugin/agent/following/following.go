// Package following looks now and then, over connections that are open anyway, whether the clusters in
// use say of themselves that they have moved or have another authority, and has their enrollments
// follow. Nobody is asked, so what it follows is narrower than what `kubehsm kubeconfig refresh` offers
// ([discovery.Follow]).
//
// It knows neither tokens nor targets: the agent gives it a [Way] for each enrollment.
package following

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// When a cluster is looked at, if [Follower.Every] is not sooner.
const (
	first   = 10 * time.Minute // after it was used first, which a look is not to delay
	soon    = time.Hour        // after a look that failed, or that a person has to see to
	timeout = 30 * time.Second
)

// Way is an enrollment in use.
type Way struct {
	// Over carries requests over the connection that is in use.
	Over http.RoundTripper
	// Swap signs in as next says, if that takes nobody, has save store next, and lets what is in use
	// follow.
	Swap func(ctx context.Context, next enrollment.Enrollment, save func() error) error
}

// Follower looks at clusters. It is safe for concurrent use.
type Follower struct {
	Store enrollment.Store
	// Every is the time from one look at a cluster to the next; below 0, there are none.
	Every time.Duration
	// Ended is told of an enrollment that has followed its cluster, with a nil error, or that did not follow the
	// change that its cluster announces; a failure is told again only when it is another one.
	Ended func(e enrollment.Enrollment, err error)
	Log   *slog.Logger

	mu    sync.Mutex
	known map[string]*look // looks by the name of the enrollment
}

// look is what came of the latest look at a cluster.
type look struct {
	running bool
	next    time.Time // time of the next one
	problem string    // why the enrollment did not follow a change that its cluster announces, "" if it announces none
}

// Problem says why the enrollment of that name does not follow what its cluster says of itself, ""
// if there is nothing to say.
func (f *Follower) Problem(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.known[name]; l != nil {
		return l.problem
	}
	return ""
}

// Begin tells whether the cluster of e is to be looked at now, and keeps others from doing so until
// done is called. An enrollment that verifies by none of its own authorities never follows.
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

// Look looks at the cluster of e, which [Follower.Begin] has allowed, and has e follow.
func (f *Follower) Look(ctx context.Context, e enrollment.Enrollment, w Way) {
	u, err := discovery.Follow(ctx, e.Cluster, w.Over, discovery.Limits{Timeout: timeout})
	if err == nil && u.Changed() {
		next := e.Follows(u.New)
		if err = next.Validate(); err == nil {
			err = w.Swap(ctx, next, func() error { return f.save(ctx, e, next) })
		}
	}
	switch {
	case ctx.Err() != nil: // the token was locked, or the agent ends
		f.ended(e.Name, soon, f.Problem(e.Name))
	case err == nil && u.Changed():
		f.ended(e.Name, f.Every, "")
		f.Ended(e.Follows(u.New), nil)
	case err == nil,
		!u.Changed() && (errors.Is(err, discovery.ErrAnonymous) || errors.Is(err, discovery.ErrNoClusterInfo)):
		f.ended(e.Name, f.Every, "")
	case !u.Changed(), errors.Is(err, enrollment.ErrBusy), errors.Is(err, enrollment.ErrChanged),
		hsm.ErrorCode(err) != "":
		// Networks, servers and tokens fail daily. A person who is told so each time ignores the notice that counts.
		f.Log.Warn("follow", "enrollment", e.Name, "error", err)
		f.ended(e.Name, soon, f.Problem(e.Name))
	default:
		f.Log.Warn("follow", "enrollment", e.Name, "error", err)
		if f.ended(e.Name, soon, err.Error()) {
			f.Ended(e, err)
		}
	}
}

// ended notes when the cluster is looked at next, and why the enrollment does not follow. It tells whether that is
// another reason than before.
func (f *Follower) ended(name string, next time.Duration, problem string) (another bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.known[name]
	another = l.problem != problem
	l.next, l.problem = time.Now().Add(min(next, f.Every)), problem
	return another
}

// save stores next in the place of e, unless somebody else has changed e meanwhile.
func (f *Follower) save(ctx context.Context, e, next enrollment.Enrollment) error {
	release, err := f.Store.Renewals().Lock(ctx, e.Name)
	if err != nil {
		return err
	}
	defer release()
	now, err := f.Store.Load(e.Name)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, e) {
		return enrollment.ErrChanged
	}
	return f.Store.Save(next)
}

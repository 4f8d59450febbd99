//go:build unix

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/process/child"
)

// Apart returns drivers that run each source, a PKCS#11 library or the smart card service, in
// its own worker process, `exe agent worker`. A source that crashes or hangs is named in a
// Problem, and the others still work. This process loads no library.
func Apart(o Options, drivers hsm.Drivers) hsm.Drivers {
	all := make(hsm.Drivers, 0, len(drivers))
	for _, d := range drivers {
		if s, ok := d.(hsm.Surveyor); ok {
			d = newApart(s, newWorkers(o))
		}
		all = append(all, d)
	}
	return all
}

// apart is a driver that runs each source in its own process. Inner only names the sources.
type apart struct {
	inner   hsm.Surveyor
	workers *workers
	limit   time.Duration   // see source
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu      sync.Mutex
	sources map[hsm.Source]*source
}

var (
	_ hsm.Driver      = (*apart)(nil)
	_ hsm.Viewer      = (*apart)(nil)
	_ hsm.Initializer = (*apart)(nil)
	_ hsm.Watcher     = (*apart)(nil)
)

// How long a listing waits for a library, and how long the library may take in all. The next
// listing shows the tokens of a library that was too slow for this one.
const (
	listTimeout   = 4500 * time.Millisecond
	cardsTimeout  = 20 * time.Second // a card that others hold is waited for, and a slow one has many slots
	surveyTimeout = 2 * time.Minute
)

func newApart(inner hsm.Surveyor, ws *workers) *apart {
	a := &apart{inner: inner, workers: ws, limit: listTimeout, sources: map[hsm.Source]*source{}}
	if !hsm.KindOf(inner.Scheme()).Modules {
		a.limit = cardsTimeout
	}
	// Drivers have no use for where a service manager keeps credentials.
	ws.env = child.Environ("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET")
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// Scheme implements [hsm.Driver].
func (a *apart) Scheme() string { return a.inner.Scheme() }

// sourcesFor returns the sources that may hold what u names.
func (a *apart) sourcesFor(u hsm.URI) ([]*source, []hsm.Problem) {
	known, problems := a.inner.Sources(u)
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*source, 0, len(known))
	for _, k := range known {
		if a.sources[k] == nil {
			a.sources[k] = newSource(k, a.workers, a.limit)
		}
		all = append(all, a.sources[k])
	}
	return all, problems
}

// List implements [hsm.Driver].
func (a *apart) List(ctx context.Context) (hsm.Listing, error) {
	var l hsm.Listing
	var err error
	l.Tokens, l.Problems, err = gather(ctx, a, 0, func(s *source) *reading[hsm.TokenInfo] {
		return s.tokens.begin(func() ([]hsm.TokenInfo, []hsm.Problem, error) {
			found, err := s.List(a.ctx)
			return found.Tokens, found.Problems, err
		})
	}, func(s *source) *lister[hsm.TokenInfo] { return &s.tokens })
	return l, err
}

// Views implements [hsm.Viewer].
func (a *apart) Views(
	ctx context.Context, wait time.Duration, skip func(hsm.TokenInfo) bool,
) ([]hsm.View, []hsm.Problem, error) {
	return gather(ctx, a, wait, func(s *source) *reading[hsm.View] {
		return s.views.begin(func() ([]hsm.View, []hsm.Problem, error) { return hsm.ReadViews(a.ctx, s, skip) })
	}, func(s *source) *lister[hsm.View] { return &s.views })
}

// gather begins a reading of each source and gathers what they have found after wait, or
// after each source's own limit.
func gather[T any](
	ctx context.Context, a *apart, wait time.Duration, begin func(*source) *reading[T], of func(*source) *lister[T],
) (all []T, problems []hsm.Problem, err error) {
	sources, problems := a.sourcesFor(hsm.URI{})
	readings := make([]*reading[T], len(sources))
	limit := a.limit
	for i, s := range sources {
		readings[i] = begin(s)
		limit = min(limit, a.limit-time.Since(readings[i].began))
	}
	patience, stop := context.WithTimeout(context.Background(), cmp.Or(wait, max(limit, time.Millisecond)))
	defer stop()
	for i, s := range sources {
		found, more, err := of(s).result(ctx, patience, readings[i])
		pending := errors.Is(err, hsm.ErrPending)
		over := time.Since(readings[i].began) >= a.limit
		switch {
		case pending && found != nil && !over:
			err = nil // the last answer still counts
		case pending && (wait == 0 || over):
			err = s.late()
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err == nil:
		case s.Path == "" && (wait == 0 || !pending): // the only source there is
			return nil, append(problems, more...), err
		default:
			more = append(more, hsm.Problem{Source: s.name(), Err: err})
		}
		all, problems = append(all, found...), append(problems, more...)
	}
	return all, problems, nil
}

// sighting lists the tokens of one library that a URI names.
type sighting struct {
	source  *source
	present bool
	found   []hsm.TokenInfo // tokens that are set up
	blank   []hsm.TokenInfo
	err     error
}

// isForwarded tells whether the tokens arrive by a server. It may belong to somebody else, and
// its tokens say what they like: those of this machine go before.
func (s sighting) isForwarded() bool {
	return slices.ContainsFunc(s.found, hsm.TokenInfo.IsForwarded) ||
		slices.ContainsFunc(s.blank, hsm.TokenInfo.IsForwarded)
}

// Open implements [hsm.Driver]. Only the token's own library is asked to open it.
func (a *apart) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	s, err := a.choose(ctx, u, false)
	if err != nil {
		return nil, err
	}
	t, err := s.Open(ctx, u)
	if errors.Is(err, hsm.ErrModule) && !errors.Is(err, hsm.ErrNoToken) {
		err = fmt.Errorf("%s: %w: %w", u, hsm.ErrNoToken, err)
	}
	return t, err
}

// Initialize implements [hsm.Initializer].
func (a *apart) Initialize(
	ctx context.Context, u hsm.URI, o hsm.InitializeOptions, p hsm.Prompter,
) (hsm.TokenInfo, error) {
	if _, ok := a.inner.(hsm.Initializer); !ok {
		return hsm.TokenInfo{}, hsm.ErrUnsupported
	}
	s, err := a.choose(ctx, u, !o.Erase)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	return s.Initialize(ctx, u, o, p)
}

// Watch implements [hsm.Watcher].
func (a *apart) Watch(ctx context.Context) error {
	sources, _ := a.sourcesFor(hsm.URI{})
	if _, ok := a.inner.(hsm.Watcher); !ok || len(sources) != 1 {
		return hsm.ErrUnsupported
	}
	return sources[0].Watch(ctx)
}

// choose returns the source that holds what u names, or, with blank, a token that is not set
// up.
func (a *apart) choose(ctx context.Context, u hsm.URI, blank bool) (*source, error) {
	if u.Scheme != a.inner.Scheme() {
		return nil, fmt.Errorf("%s: %w", u, hsm.ErrNoToken)
	}
	sources, _ := a.sourcesFor(u)
	if len(sources) == 1 { // the library reports a missing token itself
		return sources[0], nil
	}
	all, err := sight(ctx, a.inner, sources, u)
	if err != nil {
		return nil, err
	}
	return choose(u, all, blank)
}

// sightTimeout is how long sight waits for the other libraries once one of them has
// a token that fits.
const sightTimeout = 1500 * time.Millisecond

// sight looks for the tokens that u names in all libraries at the same time, and
// returns the answers in the libraries' order. Once a library has such a token, sight
// waits for the others no longer than sightTimeout, and not at all if u has a serial and the
// token does not arrive by a server.
func sight(ctx context.Context, d hsm.Surveyor, sources []*source, u hsm.URI) ([]sighting, error) {
	looking, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		i int
		sighting
	}
	answers := make(chan answer, len(sources))
	for i, s := range sources {
		go func() { answers <- answer{i, look(looking, d, s, u)} }()
	}
	all := make([]sighting, len(sources))
	var late <-chan time.Time
	for range sources {
		select {
		case a := <-answers:
			all[a.i] = a.sighting
			if len(a.found) > 0 && u.Serial != "" && !a.isForwarded() {
				return all, nil
			}
			if len(a.found) > 0 && late == nil {
				timer := time.NewTimer(sightTimeout)
				defer timer.Stop()
				late = timer.C
			}
		case <-late:
			return all, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return all, ctx.Err()
}

// look looks for the tokens that u names in one library.
func look(ctx context.Context, d hsm.Surveyor, s *source, u hsm.URI) sighting {
	listing, err := s.look(ctx, u)
	out := sighting{source: s, present: err == nil, err: err}
	for _, p := range listing.Problems {
		out.err = errors.Join(out.err, p.Err)
	}
	for _, t := range d.Match(listing.Tokens, u) {
		if t.Initialized {
			out.found = append(out.found, t)
		} else {
			out.blank = append(out.blank, t)
		}
	}
	return out
}

// choose returns the library for the token that u names, or, with blank, for a token that
// is not set up. Libraries that show the same token ([hsm.WithoutTwins]) do not compete.
func choose(u hsm.URI, all []sighting, blank bool) (*source, error) {
	var right, other []sighting
	var tokens []hsm.TokenInfo
	var failed []error
	for _, s := range all {
		found, rest := s.found, s.blank
		if blank {
			found, rest = rest, found
		}
		switch {
		case len(found) > 0:
			right = append(right, s)
			tokens = append(tokens, found...)
		case len(rest) > 0:
			other = append(other, s)
		}
		if s.err != nil {
			failed = append(failed, s.err)
		}
	}
	tokens = hsm.WithoutTwins(tokens)
	switch {
	case len(right) == 1, len(right) > 1 && (u.Serial != "" || len(tokens) == 1):
		return right[max(0, slices.IndexFunc(right, func(s sighting) bool { return !s.isForwarded() }))].source, nil
	case len(right) > 1:
		var names []string
		for _, t := range tokens {
			names = append(names, "'"+t.URI().String()+"'")
		}
		return nil, hint.With(fmt.Errorf("%s: %w", u, hsm.ErrSeveralTokens), "name one of "+strings.Join(names, ", "))
	case len(other) > 0:
		return other[0].source, nil
	case len(failed) > 0:
		return nil, fmt.Errorf("%s: %w: %w", u, hsm.ErrNoToken, errors.Join(failed...))
	}
	return nil, hint.With(fmt.Errorf("%s: %w", u, hsm.ErrNoToken), u.Place().Missing())
}

// Close implements [hsm.Driver].
func (a *apart) Close() error {
	a.cancel()
	a.workers.leave()
	return a.inner.Close()
}

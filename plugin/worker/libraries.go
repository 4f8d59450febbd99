//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/process/child"
)

// Apart returns drivers for a program that people wait for. The drivers list the tokens
// of each library in a worker process of its own, `exe agent worker`, so that a library
// that crashes or hangs is named, and the others go on. A library is loaded in this
// process only when one of its tokens is opened, and after it was listed. asking
// reports whether a driver waits for a person.
func Apart(exe string, drivers hsm.Drivers, asking func() bool) hsm.Drivers {
	all := make(hsm.Drivers, 0, len(drivers))
	for _, d := range drivers {
		if s, ok := d.(hsm.Surveyor); ok {
			d = newLibraries(s, newWorkers(Options{Exe: exe}))
		} else if !hsm.KindOf(d.Scheme()).Modules {
			d = newCards(d, asking)
		}
		all = append(all, d)
	}
	return all
}

// libraries is a driver whose libraries are looked at by listing workers.
type libraries struct {
	inner   hsm.Surveyor
	workers *workers
	limit   time.Duration   // surveyTimeout
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu      sync.Mutex
	listers map[string]*listingWorker // the keys are paths
}

var (
	_ hsm.Driver      = (*libraries)(nil)
	_ hsm.Viewer      = (*libraries)(nil)
	_ hsm.Initializer = (*libraries)(nil)
)

func newLibraries(inner hsm.Surveyor, ws *workers) *libraries {
	l := &libraries{inner: inner, workers: ws, limit: surveyTimeout, listers: map[string]*listingWorker{}}
	// A library that only lists has no use for where a service manager keeps credentials.
	ws.env = child.Environ("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET")
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Scheme implements [hsm.Driver].
func (l *libraries) Scheme() string { return l.inner.Scheme() }

// listersFor returns the listing workers of the libraries that may hold what u names.
func (l *libraries) listersFor(u hsm.URI) ([]*listingWorker, []hsm.Problem) {
	sources, problems := l.inner.Sources(u)
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*listingWorker, 0, len(sources))
	for _, source := range sources {
		s := l.listers[source.Path]
		if s == nil {
			s = &listingWorker{lister: lister{name: source.Path}, source: source, workers: l.workers, limit: l.limit,
				uses: func() (int, bool) { return l.inner.Uses(source) }}
			l.listers[source.Path] = s
		}
		all = append(all, s)
	}
	return all, problems
}

// List implements [hsm.Driver].
func (l *libraries) List(ctx context.Context) (hsm.Listing, error) {
	listers, problems := l.listersFor(hsm.URI{})
	found, failed := make([]hsm.Listing, len(listers)), make([]error, len(listers))
	var wg sync.WaitGroup
	for i, s := range listers {
		wg.Go(func() { found[i], failed[i] = s.list(ctx, hsm.URI{}, l.limit) })
	}
	wg.Wait()
	all := hsm.Listing{Problems: problems}
	for i, s := range listers {
		if failed[i] != nil {
			all.Problems = append(all.Problems, hsm.Problem{Source: s.name, Err: failed[i]})
		}
		all.Tokens = append(all.Tokens, found[i].Tokens...)
		all.Problems = append(all.Problems, found[i].Problems...)
	}
	return all, ctx.Err()
}

// Views implements [hsm.Viewer].
func (l *libraries) Views(
	ctx context.Context, wait time.Duration, skip func(hsm.TokenInfo) bool,
) ([]hsm.View, []hsm.Problem, error) {
	listers, problems := l.listersFor(hsm.URI{})
	late, stop := lateAfter(wait)
	defer stop()
	readings := make([]*reading, len(listers))
	for i, s := range listers {
		readings[i] = s.begin(func() ([]hsm.View, []hsm.Problem, error) { return s.views(l.ctx, skip) })
	}
	var all []hsm.View
	for i, s := range listers {
		views, more, err := s.result(ctx, readings[i], late)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			more = append(more, hsm.Problem{Source: s.name, Err: err})
		}
		all, problems = append(all, views...), append(problems, more...)
	}
	return all, problems, nil
}

// sighting is what one library has of the tokens that a URI names.
type sighting struct {
	path    string
	present bool
	found   []hsm.TokenInfo // tokens that are set up
	blank   []hsm.TokenInfo
	err     error
}

// Open implements [hsm.Driver]. It loads only the token's own library.
func (l *libraries) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	if u.Scheme == l.inner.Scheme() {
		all, err := l.sight(ctx, u)
		if err != nil {
			return nil, err
		}
		if u.ModulePath, err = choose(u, all, false); err != nil {
			return nil, err
		}
	}
	return l.inner.Open(ctx, u)
}

// Initialize implements [hsm.Initializer].
func (l *libraries) Initialize(
	ctx context.Context, u hsm.URI, o hsm.InitializeOptions, p hsm.Prompter,
) (hsm.TokenInfo, error) {
	i, ok := l.inner.(hsm.Initializer)
	if !ok {
		return hsm.TokenInfo{}, hsm.ErrUnsupported
	}
	all, err := l.sight(ctx, u)
	if err != nil {
		return hsm.TokenInfo{}, err
	}
	if u.ModulePath, err = choose(u, all, !o.Erase); err != nil {
		return hsm.TokenInfo{}, err
	}
	return i.Initialize(ctx, u, o, p)
}

// sightTimeout is how long sight waits for the other libraries once one of them has
// a token that fits.
const sightTimeout = 1500 * time.Millisecond

// sight looks for the tokens that u names in all libraries at the same time, and
// returns the answers in the libraries' order. Once a library has such a token, sight
// waits for the others no longer than sightTimeout, and not at all if u has a serial.
func (l *libraries) sight(ctx context.Context, u hsm.URI) ([]sighting, error) {
	listers, _ := l.listersFor(u)
	limit := l.limit
	if u.ModulePath != "" { // the URI names its library; some libraries look through networks
		limit = openTimeout
	}
	looking, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		i int
		sighting
	}
	answers := make(chan answer, len(listers))
	for i, s := range listers {
		go func() { answers <- answer{i, l.look(looking, s, u, limit)} }()
	}
	all := make([]sighting, len(listers))
	var late <-chan struct{}
	for range listers {
		select {
		case a := <-answers:
			all[a.i] = a.sighting
			if len(a.found) > 0 && u.Serial != "" {
				return all, nil
			}
			if len(a.found) > 0 && late == nil {
				var stop func()
				late, stop = lateAfter(sightTimeout)
				defer stop()
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
func (l *libraries) look(ctx context.Context, s *listingWorker, u hsm.URI, limit time.Duration) sighting {
	listing, err := s.list(ctx, u, limit)
	out := sighting{path: s.source.Path, present: err == nil, err: err}
	for _, p := range listing.Problems {
		out.err = errors.Join(out.err, p.Err)
	}
	for _, t := range l.inner.Match(listing.Tokens, u) {
		if t.Initialized {
			out.found = append(out.found, t)
		} else {
			out.blank = append(out.blank, t)
		}
	}
	return out
}

// choose returns the path of the library to load for the token that u names, or, with
// blank, for a token that is not set up. A library that is the only one is chosen even
// without such a token: the library's own error says what is missing.
func choose(u hsm.URI, all []sighting, blank bool) (string, error) {
	var right, other []sighting
	var failed []error
	for _, s := range all {
		found, rest := s.found, s.blank
		if blank {
			found, rest = rest, found
		}
		switch {
		case len(found) > 0:
			right = append(right, s)
		case len(rest) > 0:
			other = append(other, s)
		}
		if s.err != nil {
			failed = append(failed, s.err)
		}
	}
	switch {
	case len(right) == 1, len(right) > 1 && u.Serial != "":
		return right[0].path, nil
	case len(right) > 1:
		var names []string
		for _, s := range right {
			for _, t := range append(s.found, s.blank...) {
				names = append(names, "'"+t.URI().String()+"'")
			}
		}
		return "", hint.With(fmt.Errorf("%s: %w", u, hsm.ErrSeveralTokens), "name one of "+strings.Join(names, ", "))
	case len(other) > 0:
		return other[0].path, nil
	case len(all) == 1 && all[0].present:
		return all[0].path, nil
	case len(failed) > 0:
		return "", fmt.Errorf("%s: %w: %w", u, hsm.ErrNoToken, errors.Join(failed...))
	}
	return "", hint.With(fmt.Errorf("%s: %w", u, hsm.ErrNoToken), "plug the token in, or see `kubehsm token list`")
}

// Close implements [hsm.Driver].
func (l *libraries) Close() error {
	l.cancel()
	l.workers.leave()
	return l.inner.Close()
}

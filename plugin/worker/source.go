//go:build unix

package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// shunFor is how long a source is left alone after its process crashed or hung.
const shunFor = 30 * time.Second

// smartCards is the name of the smart card service in Problems.
const smartCards = "smart cards"

// source is the driver of one source, a PKCS#11 library or the smart card service, in a
// process of its own. The process is started when it is first needed and stays: what is
// opened in it shares logins, as in one program.
type source struct {
	hsm.Source
	workers *workers
	limit   time.Duration // longest wait for a listing
	views   lister[hsm.View]
	tokens  lister[hsm.TokenInfo]

	state   sync.Mutex
	process *workerProcess
	failure error // the error that its process ended with
	failed  time.Time
}

var _ hsm.Driver = (*source)(nil)

func newSource(s hsm.Source, ws *workers, limit time.Duration) *source {
	return &source{Source: s, workers: ws, limit: limit}
}

// name is the source's in Problems.
func (s *source) name() string { return cmp.Or(s.Path, smartCards) }

// Scheme implements [hsm.Driver].
func (s *source) Scheme() string { return s.Source.Scheme }

// peer returns the process, and starts it if needed. A process that may still run a cancelled
// operation is replaced.
func (s *source) peer() (*peer, error) {
	s.state.Lock()
	defer s.state.Unlock()
	if s.failure != nil && time.Since(s.failed) < shunFor {
		return nil, s.failure
	}
	if p := s.process; p != nil && (p.gone() || p.left.Load()) {
		go p.leave()
		s.process = nil
	}
	if s.process == nil {
		p, err := s.workers.start(s.URI())
		if err != nil {
			return nil, fmt.Errorf("start the library's worker: %w", err)
		}
		s.process = p
	}
	return s.talk(s.process), nil
}

// talk is the process as it is talked to.
func (s *source) talk(p *workerProcess) *peer {
	w := &peer{process: p, library: libraryOf(s.URI()), path: s.Path, o: s.workers.o}
	w.over = func(err error) error {
		s.state.Lock()
		defer s.state.Unlock()
		switch {
		case p.dismissed(), !errors.Is(err, ErrNotSent):
		case s.failure != nil:
			return s.failure
		default:
			err = fmt.Errorf("%w: the %s ended its process (%s)", hsm.ErrModule, w.library, p.cmd.ProcessState)
		}
		if p.dismissed() {
			return err
		}
		next := hsm.Crashed
		if p.forced.Load() { // the process did not answer in time
			next = hsm.Hung
		}
		s.failure, s.failed = hint.With(err, next(s.Path)), time.Now()
		return s.failure
	}
	return w
}

// late says that the source did not answer a listing in time.
func (s *source) late() error {
	err := fmt.Errorf("%w: the %s did not answer for %s", hsm.ErrModule, libraryOf(s.URI()), span.Limit(s.limit))
	return hint.With(err, hsm.Hung(s.Path))
}

// use runs f with the process. If the process was replaced meanwhile, use runs f again with
// the new one.
func (s *source) use(ctx context.Context, f func(*peer) error) error {
	for {
		w, err := s.peer()
		if err != nil {
			return err
		}
		if err = f(w); err == nil || ctx.Err() != nil || !w.process.dismissed() {
			return err
		}
		if s.workers.isClosed() {
			return context.Canceled
		}
	}
}

// List implements [hsm.Driver].
func (s *source) List(ctx context.Context) (hsm.Listing, error) { return s.look(ctx, hsm.URI{}) }

// look lists the tokens. It tries harder to find a token that want names.
func (s *source) look(ctx context.Context, want hsm.URI) (l hsm.Listing, err error) {
	err = s.use(ctx, func(w *peer) error {
		o := call{quiet: want.Scheme == ""} // a listing has messages of its own
		out, err := w.call(ctx, "survey", arguments{URI: want, Source: s.Source}, o)
		if err != nil {
			return err
		}
		l.Tokens, l.Problems = out.Tokens, nil
		for _, p := range out.Problems {
			if p.Error == nil {
				return fmt.Errorf("%w: a problem without an error", wire.ErrFrame)
			}
			l.Problems = append(l.Problems, hsm.Problem{Source: p.Source, Err: s.workers.o.Codes.Error(p.Error)})
		}
		return nil
	})
	return l, err
}

// Open implements [hsm.Driver].
func (s *source) Open(ctx context.Context, u hsm.URI) (hsm.Token, error) {
	if s.Path != "" {
		u.ModulePath = s.Path
	}
	var t *workerToken
	err := s.use(ctx, func(w *peer) (err error) {
		t, _, err = w.open(ctx, u)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Initialize implements [hsm.Initializer].
func (s *source) Initialize(ctx context.Context, u hsm.URI, o hsm.InitializeOptions, p hsm.Prompter) (
	info hsm.TokenInfo, err error,
) {
	u.ModulePath = s.Path
	err = s.use(ctx, func(w *peer) error {
		out, err := w.call(ctx, "initialize", arguments{URI: u, Initialize: o}, call{prompter: p})
		if err == nil {
			info, err = out.info()
		}
		return err
	})
	return info, err
}

// Watch implements [hsm.Watcher].
func (s *source) Watch(ctx context.Context) error {
	return s.use(ctx, func(w *peer) error {
		_, err := w.call(ctx, "watch", arguments{Source: s.Source}, call{})
		return err
	})
}

// Close implements [hsm.Driver].
func (s *source) Close() error {
	s.state.Lock()
	p := s.process
	s.state.Unlock()
	if p != nil {
		p.leave()
	}
	return nil
}

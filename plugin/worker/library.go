//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
)

// How long a library may take where nobody is asked anything: to be loaded and to
// list its tokens, and to read what is on one of them.
const (
	surveyTimeout = 4500 * time.Millisecond
	readTimeout   = 10 * time.Second
)

// shunFor is how long a library that crashed or hung is not tried again.
const shunFor = 30 * time.Second

// listingWorker looks at one library in a process of its own, as [workers] keep tokens: it
// is given no PIN, and what it says is bounded. The process stays for the next look.
type listingWorker struct {
	lister
	source  hsm.Source
	workers *workers
	limit   time.Duration // surveyTimeout
	uses    func() (n int, open bool)

	state   sync.Mutex
	process *workerProcess
	used    int   // the count of uses when process was started
	stale   bool  // a token was open here then: what is on it may have changed since
	failure error // how its process ended
	failed  time.Time
}

// worker returns the process, started if need be. One from before a token was used
// in this process is replaced: libraries keep what they once have read.
func (s *listingWorker) worker() (*workerProcess, error) {
	s.state.Lock()
	defer s.state.Unlock()
	if s.failure != nil && time.Since(s.failed) < shunFor {
		return nil, s.failure
	}
	n, open := s.uses()
	if p := s.process; p != nil && (p.gone() || s.stale || n != s.used) {
		go p.leave()
		s.process = nil
	}
	if s.process == nil {
		p, err := s.workers.start(s.source.URI())
		if err != nil {
			return nil, fmt.Errorf("start the library's worker: %w", err)
		}
		s.process, s.used = p, n
	}
	s.stale = open
	return s.process, nil
}

// use runs f with the library's process. If that was replaced meanwhile, it is done
// again with the new one; if it ended by itself the error says how.
func (s *listingWorker) use(ctx context.Context, f func(*workerToken) error) error {
	for {
		p, err := s.worker()
		if err != nil {
			return err
		}
		err = f(&workerToken{process: p, o: s.workers.o, library: "library " + s.source.Path, died: func() {}})
		switch {
		case err == nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case p.dismissed():
			if s.workers.isClosed() {
				return context.Canceled
			}
		case p.gone():
			return s.shun(p, err)
		default: // the driver's own words
			return err
		}
	}
}

// shun words how the process ended, and keeps it.
func (s *listingWorker) shun(p *workerProcess, err error) error {
	if !errors.Is(err, hsm.ErrModule) {
		err = fmt.Errorf("%w: the library %s ended its process (%s)", hsm.ErrModule, s.source.Path, p.cmd.ProcessState)
	}
	err = hint.With(err,
		"update or repair it; to leave it out, take it out of config.yaml, "+
			"put `disable-in: kubehsm` into its p11-kit .module file, or list your own libraries in config.yaml with `onlyModules: true`")
	s.state.Lock()
	defer s.state.Unlock()
	s.failure, s.failed = err, time.Now()
	return err
}

// list lists the library's tokens. One that want names is looked for with more
// trouble.
func (s *listingWorker) list(ctx context.Context, want hsm.URI, limit time.Duration) (l hsm.Listing, err error) {
	err = s.use(ctx, func(t *workerToken) error {
		out, err := callWorker[surveyAnswer](ctx, t, opSurvey, surveyRequest{named{want}, s.source}, nil, limit)
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

// maxSlots bounds how many slots are read of a token.
const maxSlots = 100_000

// slots reads what is on a token, a part at a time over one connection.
func (s *listingWorker) slots(ctx context.Context, u hsm.URI) (all []hsm.Slot, err error) {
	u.ModulePath = s.source.Path
	err = s.use(ctx, func(t *workerToken) error {
		c, err := t.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		for all = nil; ; {
			out, err := askWorker[slotsAnswer](ctx, t, c, opSlots, slotsRequest{named{u}, len(all)}, nil, readTimeout)
			if err != nil {
				return err
			}
			for _, packed := range out.Slots {
				slot, err := packed.unpack()
				if err != nil {
					return err
				}
				all = append(all, slot)
			}
			if len(all) >= out.Total || len(out.Slots) == 0 || len(all) > maxSlots {
				return nil
			}
		}
	})
	return all, err
}

// views lists the library's tokens with what is on them.
func (s *listingWorker) views(ctx context.Context, skip func(hsm.TokenInfo) bool) ([]hsm.View, []hsm.Problem, error) {
	l, err := s.list(ctx, hsm.URI{}, s.limit)
	if err != nil {
		return nil, nil, err
	}
	views := make([]hsm.View, 0, len(l.Tokens))
	for _, info := range l.Tokens {
		if skip(info) {
			continue
		}
		v := hsm.View{Info: info}
		if info.Initialized {
			v.Slots, v.Err = s.slots(ctx, info.URI())
		}
		views = append(views, v)
	}
	return views, l.Problems, ctx.Err()
}

// dismissed tells that it was told to end.
func (p *workerProcess) dismissed() bool {
	select {
	case <-p.asked:
		return true
	default:
		return false
	}
}

// leaveTimeout is how long a library that holds no login may take to end in order.
const leaveTimeout = 300 * time.Millisecond

// leave ends a process that has nothing to lock.
func (p *workerProcess) leave() {
	p.once.Do(func() { close(p.asked); _ = p.control.Close() })
	select {
	case <-p.exited:
	case <-time.After(leaveTimeout):
		p.kill()
	}
}

func (ws *workers) isClosed() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.closed
}

// leave ends all processes, none of which holds a login, and starts no more.
func (ws *workers) leave() {
	ws.mu.Lock()
	ws.closed = true
	all := make([]*workerProcess, 0, len(ws.live))
	for p := range ws.live {
		all = append(all, p)
	}
	ws.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(p.leave)
	}
	wg.Wait()
}

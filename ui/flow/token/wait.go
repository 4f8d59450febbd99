package token

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
)

// pollTokens is how often drivers that do not tell of insertions are asked.
const pollTokens = time.Second

// lookAgain is how long drivers that tell of insertions are relied on. A driver in a process of
// its own may begin to watch after the look that was to follow: it tells nothing of a token that
// was inserted in between.
const lookAgain = 5 * time.Second

// WaitOptions say what to wait for.
type WaitOptions struct {
	// Token is what the token must be; the zero value is any that is set up.
	Token hsm.URI
	// Serial is the token's serial, "" for any.
	Serial string
	// Except are tokens that are not awaited.
	Except []hsm.URI
	// New leaves out the tokens that are there at the start.
	New bool
	// Waiting is called if there is none yet, with what could not be listed and with the tokens
	// that are here and not awaited; and again when these are others.
	Waiting func(p []hsm.Problem, others []hsm.TokenInfo)
}

// awaits tells whether t is what is awaited, wherever it is.
func (o WaitOptions) awaits(t hsm.TokenInfo) bool {
	if o.Serial != "" && t.Serial != o.Serial || isOf(o.Except, t) {
		return false
	}
	if o.Token.Scheme == "" {
		return t.Initialized
	}
	return o.Token.MatchToken(t)
}

// Wait returns the tokens that are awaited as soon as there is one, or
// ctx's error.
func (ts Tokens) Wait(ctx context.Context, o WaitOptions) ([]hsm.TokenInfo, error) {
	drivers := slices.Clone(ts.Env.Drivers)
	if o.Token.Scheme != "" {
		drivers = slices.DeleteFunc(drivers, func(d hsm.Driver) bool { return d.Scheme() != o.Token.Scheme })
	}
	if len(drivers) == 0 {
		return nil, hsm.ErrUnavailable
	}
	var before map[string]bool
	for told := "none"; ; {
		// Watching starts before the look, so that little comes in between.
		changed, stop := notice(ctx, drivers)
		l, err := drivers.List(ctx)
		if err != nil {
			stop()
			return nil, err
		}
		var found, others []hsm.TokenInfo
		for _, t := range l.Tokens {
			if o.awaits(t) && !before[place(t)] {
				found = append(found, t)
			} else {
				others = append(others, t)
			}
		}
		if len(found) == 0 && o.Token.Kind().Modules && !o.New {
			if found, err = opened(ctx, drivers, o.Token); err != nil {
				stop()
				return nil, err
			}
		}
		if o.New {
			if before == nil {
				found = nil
			}
			before = places(l.Tokens, before)
		}
		if len(found) > 0 {
			stop()
			return found, nil
		}
		here := ""
		for _, t := range others {
			here += place(t) + "\n"
		}
		if here != told && o.Waiting != nil {
			o.Waiting(l.Problems, others)
		}
		told = here
		select {
		case <-changed:
		case <-ctx.Done():
		}
		stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// opened is the token that u names, or none. Opening takes more trouble than
// listing: some libraries show only the tokens that were there when they were
// loaded.
func opened(ctx context.Context, drivers hsm.Drivers, u hsm.URI) ([]hsm.TokenInfo, error) {
	t, err := drivers.Open(ctx, u)
	if err != nil {
		return nil, ctx.Err() // the next look may find it
	}
	info, err := t.Info(ctx)
	if err = errors.Join(err, t.Close()); errors.Is(err, hsm.ErrRemoved) || errors.Is(err, hsm.ErrNoToken) {
		return nil, ctx.Err() // the token was pulled again
	}
	return []hsm.TokenInfo{info}, err
}

// place tells tokens apart, also two of one kind without serials.
func place(t hsm.TokenInfo) string { return t.URI().String() + "\n" + t.Reader }

// places are those of the tokens that were there before and still are; one
// that left counts as new when it comes back. The first time it is all of them.
func places(tokens []hsm.TokenInfo, before map[string]bool) map[string]bool {
	now := map[string]bool{}
	for _, t := range tokens {
		if before == nil || before[place(t)] {
			now[place(t)] = true
		}
	}
	return now
}

// notice closes changed when tokens may have come or gone. stop ends it and
// waits for it.
func notice(ctx context.Context, drivers hsm.Drivers) (changed <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	c := make(chan struct{})
	wake := sync.OnceFunc(func() { close(c) })
	again := time.AfterFunc(lookAgain, wake)
	var running sync.WaitGroup
	for _, d := range drivers {
		running.Go(func() {
			w, ok := d.(hsm.Watcher)
			err := hsm.ErrUnsupported
			if ok {
				err = w.Watch(ctx)
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				poll(ctx)
			}
			wake()
		})
	}
	return c, func() { again.Stop(); cancel(); running.Wait() }
}

func poll(ctx context.Context) {
	timer := time.NewTimer(pollTokens)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

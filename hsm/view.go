package hsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// View is a token with what is on it, read without a PIN.
type View struct {
	Info  TokenInfo
	Slots []Slot
	// Err says why the slots could not be read.
	Err error
}

// Viewer is a [Driver] that reads tokens and what is on them, each of its
// libraries apart from the others.
type Viewer interface {
	// Views reads the tokens that skip does not tell it to leave out. What does not
	// answer within patience becomes a Problem with [ErrPending], or is as it was
	// found the last time, and goes on being read; a patience of 0 has no end but
	// the driver's own limit.
	Views(ctx context.Context, patience time.Duration, skip func(TokenInfo) bool) ([]View, []Problem, error)
}

// Source is code that a driver finds tokens by: one PKCS#11 library, or the smart card
// service, which has no path.
type Source struct {
	Scheme string `json:"scheme"`
	Path   string `json:"path,omitempty"`
}

// URI names any token of the source.
func (s Source) URI() URI { return URI{Scheme: s.Scheme, ModulePath: s.Path} }

// Surveyor is a [Driver] that runs code that is not ours, whose sources can be used one by
// one, so that each can be kept in a process of its own.
type Surveyor interface {
	Driver
	// Sources names the sources that may hold what u names, without loading any,
	// and what is wrong with their configuration.
	Sources(u URI) ([]Source, []Problem)
	// Survey lists the tokens of one of them, see [Driver.List].
	Survey(ctx context.Context, s Source) (Listing, error)
	// Match returns those of the tokens of one source that u names.
	Match(tokens []TokenInfo, u URI) []TokenInfo
}

// Views lists the tokens of all drivers as [Drivers.List] does, all at the same
// time, with what is on them; see [Viewer].
func (d Drivers) Views(ctx context.Context, patience time.Duration) ([]View, []Problem, error) {
	cards := make(chan struct{}) // closed when those of the PIV driver are known
	var known []View
	twinned := func(t TokenInfo) bool {
		if !maybeTwin(t) {
			return false
		}
		<-cards
		return slices.ContainsFunc(known, func(v View) bool { return twin(t, v.Info) })
	}
	if !slices.ContainsFunc(d, func(driver Driver) bool { return driver.Scheme() == SchemePIV }) {
		close(cards)
	}
	views, found := make([][]View, len(d)), make([]Listing, len(d))
	whole := make([]error, len(d))
	var wg sync.WaitGroup
	for i, driver := range d {
		wg.Go(func() {
			views[i], found[i].Problems, whole[i] = ViewsOf(ctx, driver, patience, twinned)
			for _, v := range views[i] {
				found[i].Tokens = append(found[i].Tokens, v.Info)
			}
			if driver.Scheme() == SchemePIV {
				known = views[i]
				close(cards)
			}
		})
	}
	wg.Wait()
	l := d.merge(found, whole)
	return withoutTwins(slices.Concat(views...)), l.Problems, ctx.Err()
}

// ViewsOf reads the tokens of one driver as [Viewer] says, if it is one.
func ViewsOf(
	ctx context.Context, d Driver, patience time.Duration, skip func(TokenInfo) bool,
) ([]View, []Problem, error) {
	if v, ok := d.(Viewer); ok {
		return v.Views(ctx, patience, skip)
	}
	return ReadViews(ctx, d, skip)
}

// ReadViews reads the tokens of d one after the other, but those that skip tells
// it to leave out.
func ReadViews(ctx context.Context, d Driver, skip func(TokenInfo) bool) ([]View, []Problem, error) {
	l, err := d.List(ctx)
	if err != nil {
		return nil, l.Problems, err
	}
	var views []View
	for _, info := range l.Tokens {
		if skip(info) {
			continue
		}
		v := View{Info: info}
		if info.Initialized {
			v.Slots, v.Err = ReadSlots(ctx, d, info.URI())
		}
		views = append(views, v)
	}
	return views, l.Problems, ctx.Err()
}

// ReadSlots reads what is on the token that u names, without a PIN.
func ReadSlots(ctx context.Context, d interface {
	Open(ctx context.Context, u URI) (Token, error)
}, u URI) ([]Slot, error) {
	t, err := d.Open(ctx, u)
	if err != nil {
		return nil, err
	}
	slots, err := t.Slots(ctx, nil)
	if err != nil {
		err = fmt.Errorf("read token %q: %w", u.String(), err)
	}
	return slots, errors.Join(err, t.Close())
}

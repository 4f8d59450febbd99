package hsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Drivers is the set of drivers a program was built with.
type Drivers []Driver

// List lists the tokens of all drivers. A driver that fails whole becomes a
// Problem under its scheme. A token that several reach is listed once, see
// [WithoutTwins]; [Drivers.Open] takes the other URIs all the same. That a reader is empty is no Problem where
// there is a token, and that there are no readers is said once.
func (d Drivers) List(ctx context.Context) (Listing, error) {
	found, whole := make([]Listing, len(d)), make([]error, len(d))
	var wg sync.WaitGroup
	for i, driver := range d {
		wg.Go(func() { found[i], whole[i] = driver.List(ctx) })
	}
	wg.Wait()
	return d.merge(found, whole), ctx.Err()
}

// merge is what all drivers found; whole are the errors of those that failed whole.
func (d Drivers) merge(found []Listing, whole []error) Listing {
	var all Listing
	var failed []Problem
	for i, driver := range d {
		if whole[i] != nil {
			failed = append(failed, Problem{Source: driver.Scheme(), Err: whole[i]})
		}
		all.Tokens = append(all.Tokens, found[i].Tokens...)
		all.Problems = append(all.Problems, found[i].Problems...)
	}
	all.Tokens = WithoutTwins(all.Tokens)
	if len(all.Tokens) > 0 || slices.ContainsFunc(failed, func(p Problem) bool { return errors.Is(p.Err, ErrNoToken) }) {
		all.Problems = slices.DeleteFunc(all.Problems, func(p Problem) bool { return errors.Is(p.Err, ErrNoToken) })
	}
	all.Problems = append(all.Problems, failed...)
	return all
}

// Open opens the token that u names with the driver of its scheme.
func (d Drivers) Open(ctx context.Context, u URI) (Token, error) {
	for _, driver := range d {
		if driver.Scheme() == u.Scheme {
			return driver.Open(ctx, u)
		}
	}
	return nil, fmt.Errorf("tokens of the kind %q: %w", u.Scheme, ErrUnavailable)
}

// Close closes all drivers.
func (d Drivers) Close() error {
	errs := make([]error, 0, len(d))
	for _, driver := range d {
		errs = append(errs, driver.Close())
	}
	return errors.Join(errs...)
}

package hsm

import (
	"context"
	"errors"
	"fmt"
)

// Drivers is the set of drivers a program was built with.
type Drivers []Driver

// List lists the tokens of all drivers. A driver that fails whole becomes a
// Problem under its scheme.
func (d Drivers) List(ctx context.Context) (Listing, error) {
	var all Listing
	for _, driver := range d {
		l, err := driver.List(ctx)
		if err != nil {
			l.Problems = append(l.Problems, Problem{Source: driver.Scheme(), Err: err})
		}
		all.Tokens = append(all.Tokens, l.Tokens...)
		all.Problems = append(all.Problems, l.Problems...)
	}
	return all, ctx.Err()
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

package hsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Drivers is the set of drivers a program was built with.
type Drivers []Driver

// List lists the tokens of all drivers. A driver that fails whole becomes a
// Problem under its scheme. A PIV card that PKCS#11 modules reach as well is
// listed once, as PIV, which can do all that the card can; [Drivers.Open] takes
// the modules' URIs all the same. That a reader is empty is no Problem where
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

// WithoutTwins leaves out PKCS#11 tokens that are the PIV application of a card
// listed itself.
func WithoutTwins(tokens []TokenInfo) []TokenInfo {
	return slices.DeleteFunc(slices.Clone(tokens), func(t TokenInfo) bool {
		return slices.ContainsFunc(tokens, func(card TokenInfo) bool { return twin(t, card) })
	})
}

// openSCPIV is the manufacturer that OpenSC gives to PIV applications; it tells
// other applications of the same card (OpenPGP) apart.
const openSCPIV = "piv_II"

// twin tells whether t is the PIV card, seen through a module: Yubico's tells
// the serial, or 0 where there is none, OpenSC's only the reader, cut to the 64 bytes of
// CK_SLOT_INFO's slotDescription.
func twin(t, card TokenInfo) bool {
	if !maybeTwin(t) || card.Scheme != SchemePIV {
		return false
	}
	if t.Serial != "" && t.Serial == card.Serial && t.Manufacturer != openSCPIV {
		return true
	}
	reader := card.Reader[:min(len(card.Reader), 64)]
	return t.Reader != "" && t.Reader == strings.TrimRight(reader, " ")
}

// maybeTwin tells whether t may be a PIV card seen through a module.
func maybeTwin(t TokenInfo) bool {
	return t.Scheme == SchemePKCS11 && (t.Manufacturer == openSCPIV || strings.HasPrefix(t.Manufacturer, "Yubico"))
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

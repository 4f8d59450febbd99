package drivers

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// leftOut stands in for a driver that the user's configuration turns off: it
// has no tokens, and says why.
type leftOut struct{ scheme, tokens, config string }

var _ hsm.Driver = leftOut{}

func (l leftOut) err() error {
	return hint.Withf(fmt.Errorf("%w: `onlyModules: true` in %s leaves %s out", hsm.ErrNoToken, l.config, l.tokens),
		"take onlyModules out of %s, or list the PKCS#11 library of that token there", l.config)
}

// Scheme implements [hsm.Driver].
func (l leftOut) Scheme() string { return l.scheme }

// List implements [hsm.Driver]. Where other tokens are found, nobody wants to
// hear of these.
func (l leftOut) List(context.Context) (hsm.Listing, error) {
	return hsm.Listing{Problems: []hsm.Problem{{Source: "PC/SC", Err: l.err()}}}, nil
}

// Open implements [hsm.Driver].
func (l leftOut) Open(_ context.Context, u hsm.URI) (hsm.Token, error) {
	return nil, fmt.Errorf("%s: %w", u, l.err())
}

// Close implements [hsm.Driver].
func (leftOut) Close() error { return nil }

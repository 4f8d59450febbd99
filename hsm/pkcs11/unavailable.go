//go:build !cgo

package pkcs11

import (
	"context"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Driver stands in where the program was built without cgo, which PKCS#11
// needs: everything but Close gives [hsm.ErrUnavailable].
type Driver struct{}

var _ hsm.Driver = (*Driver)(nil)

// New returns a driver that has no tokens.
func New(Options) *Driver { return &Driver{} }

func unavailable() error {
	return hint.With(fmt.Errorf("PKCS#11 modules: %w", hsm.ErrUnavailable), "use a build with cgo (CGO_ENABLED=1)")
}

// Scheme implements [hsm.Driver].
func (*Driver) Scheme() string { return hsm.SchemePKCS11 }

// List implements [hsm.Driver].
func (*Driver) List(context.Context) (hsm.Listing, error) { return hsm.Listing{}, unavailable() }

// Open implements [hsm.Driver].
func (*Driver) Open(context.Context, hsm.URI) (hsm.Token, error) { return nil, unavailable() }

// Close implements [hsm.Driver].
func (*Driver) Close() error { return nil }

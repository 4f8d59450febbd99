//go:build !cgo

package pkcs11

import (
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
)

func TestUnavailable(t *testing.T) {
	d := New(Options{Discover: true})
	_, listing := d.List(t.Context())
	_, opening := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11})
	for _, err := range []error{listing, opening} {
		if !errors.Is(err, hsm.ErrUnavailable) || hsm.Hint(err) == "" {
			t.Errorf("error %v, hint %q", err, hsm.Hint(err))
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

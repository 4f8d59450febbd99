//go:build !cgo

package pkcs11

import (
	"errors"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
)

func TestUnavailable(t *testing.T) {
	d := New(Options{Discover: true})
	_, listing := d.List(t.Context())
	_, opening := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11})
	for _, err := range []error{listing, opening} {
		if !errors.Is(err, hsm.ErrUnavailable) || hinting.Of(err) == "" {
			t.Errorf("error %v, hint %q", err, hinting.Of(err))
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

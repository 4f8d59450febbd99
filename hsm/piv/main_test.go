//go:build cgo || windows

package piv

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// signVar has this program sign with the card and nothing else, to be killed.
const signVar = "KUBEHSM_TEST_SIGN"

func TestMain(m *testing.M) {
	if os.Getenv(signVar) != "" {
		if err := signOnce(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(vcard.Main(m))
}

// typist types the factory's PIN.
type typist struct{ hsm.Prompter }

func (typist) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) {
	return hsm.NewSecret([]byte(vcard.DefaultPIN)), nil
}
func (typist) Touch(context.Context, hsm.TouchPrompt) func() { return func() {} }

func signOnce() error {
	ctx, u := context.Background(), hsm.URI{Scheme: hsm.SchemePIV, Slot: "9a"}
	d := New(Options{})
	defer d.Close()
	tok, err := d.Open(ctx, u)
	if err != nil {
		return err
	}
	s, err := tok.Signer(ctx, u, nil, typist{})
	if err != nil {
		return err
	}
	return sign(s)
}

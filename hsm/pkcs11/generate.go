//go:build cgo

package pkcs11

import (
	"context"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
)

// Generate implements [hsm.Token]. The key's CKA_ID is the SHA-1 of its EC
// point, modulus or Ed25519 key, as most tools make it. A token whose new key
// does not read back as sensitive and not extractable is refused, and the key
// removed.
func (t *token) Generate(ctx context.Context, o hsm.GenerateOptions, p hsm.Prompter) (hsm.Slot, error) {
	plan, err := planKey(o)
	if err != nil {
		return hsm.Slot{}, err
	}
	if err := t.Unlock(ctx, p); err != nil {
		return hsm.Slot{}, err
	}
	var made *entry
	var info hsm.TokenInfo
	err = t.d.writing(ctx, func(w writer) error {
		info = t.d.info
		made, err = w.generate(plan)
		return err
	})
	if err != nil {
		return hsm.Slot{}, fault("generate a key", err)
	}
	return made.slot(info, true), nil
}

// Delete implements [hsm.Token]. The private key goes first.
func (t *token) Delete(ctx context.Context, u hsm.URI, p hsm.Prompter) error {
	if err := t.Unlock(ctx, p); err != nil {
		return err
	}
	e, _, err := lookup(ctx, t.d, u)
	if err != nil {
		return err
	}
	objects := append(append([]p11.ObjectHandle{}, e.private...), e.public...)
	for _, c := range e.certs {
		objects = append(objects, c.handle)
	}
	err = t.d.writing(ctx, func(w writer) error { return w.destroy(objects...) })
	return fault("delete the key", err)
}

//go:build cgo

package pkcs11

import (
	"context"
	"fmt"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// ChangePIN implements [hsm.Administration] for the user PIN and the SO PIN.
func (t *token) ChangePIN(ctx context.Context, kind hsm.PINKind, p hsm.Prompter) error {
	set := func(sh p11.SessionHandle, old, fresh *hsm.Secret) error {
		return t.d.module.lib.setPIN(t.d.module.ctx, sh, old, fresh)
	}
	switch kind {
	case hsm.UserPIN:
		return exchange(ctx, t.d, kind, kind, p, set)
	case hsm.SOPIN:
		return exchange(ctx, t.d, kind, kind, p, func(sh p11.SessionHandle, old, fresh *hsm.Secret) error {
			return t.d.module.asSO(sh, old, func() error { return set(sh, old, fresh) })
		})
	}
	return hint.With(fmt.Errorf("changing the %s here: %w", kind, hsm.ErrUnsupported),
		"a PKCS#11 token has a PIN and an SO PIN")
}

// Unblock implements [hsm.Administration] with the SO PIN.
func (t *token) Unblock(ctx context.Context, p hsm.Prompter) error {
	return exchange(ctx, t.d, hsm.SOPIN, hsm.UserPIN, p, func(sh p11.SessionHandle, so, fresh *hsm.Secret) error {
		return t.d.module.asSO(sh, so, func() error { return t.d.module.lib.initPIN(t.d.module.ctx, sh, fresh) })
	})
}

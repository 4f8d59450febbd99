//go:build cgo && windows

package pkcs11

import (
	"errors"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
)

// library is a loaded module.
type library struct{}

func openLibrary(path string) (*library, *p11.Ctx, error) {
	ctx := p11.New(path)
	if ctx == nil {
		return nil, nil, errors.New("it cannot be loaded")
	}
	return &library{}, ctx, nil
}

// login is C_Login. A nil pin is typed on the reader.
func (*library) login(ctx *p11.Ctx, sh p11.SessionHandle, user uint, pin *hsm.Secret) error {
	return ctx.Login(sh, user, pin.Unsafe())
}

// sign is C_Sign.
func (*library) sign(ctx *p11.Ctx, sh p11.SessionHandle, data []byte) ([]byte, error) {
	return ctx.Sign(sh, data)
}

// initToken is C_InitToken; label has 32 bytes. A nil pin is typed on the reader.
func (*library) initToken(ctx *p11.Ctx, slot uint, so *hsm.Secret, label []byte) error {
	return ctx.InitToken(slot, so.Unsafe(), string(label))
}

// initPIN is C_InitPIN. A nil pin is typed on the reader.
func (*library) initPIN(ctx *p11.Ctx, sh p11.SessionHandle, pin *hsm.Secret) error {
	return ctx.InitPIN(sh, pin.Unsafe())
}

// setPIN is C_SetPIN. Nil PINs are typed on the reader.
func (*library) setPIN(ctx *p11.Ctx, sh p11.SessionHandle, old, fresh *hsm.Secret) error {
	return ctx.SetPIN(sh, old.Unsafe(), fresh.Unsafe())
}

// attributes leaves it to the caller to ask for each.
func (*library) attributes(_ *p11.Ctx, _ p11.SessionHandle, _ p11.ObjectHandle, types []uint) (map[uint][]byte, []uint,
	error) {
	return nil, types, nil
}

//go:build cgo && windows

package pkcs11

import (
	"errors"
	"fmt"

	p11 "github.com/miekg/pkcs11"
	"golang.org/x/sys/windows"

	"github.com/kubehsm/kubehsm/hsm"
)

// library is a loaded module.
type library struct{}

func openLibrary(path string) (*library, *p11.Ctx, error) {
	// A library finds those that came with it beside it, and none in the current folder. It is
	// loaded here; by its path, pkcs11 gets the one that is loaded.
	handle, err := windows.LoadLibraryEx(
		path,
		0,
		windows.LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR|windows.LOAD_LIBRARY_SEARCH_DEFAULT_DIRS,
	)
	if err != nil {
		return nil, nil, fmt.Errorf("it cannot be loaded: %w", err)
	}
	defer func() { _ = windows.FreeLibrary(handle) }() // pkcs11 has counted its own use
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

// slots is C_GetSlotList.
func (*library) slots(ctx *p11.Ctx, present bool) ([]uint, error) { return ctx.GetSlotList(present) }

// found is C_FindObjects.
func (*library) found(ctx *p11.Ctx, sh p11.SessionHandle) ([]p11.ObjectHandle, error) {
	some, _, err := ctx.FindObjects(sh, objectsAtATime)
	return some, err
}

// attribute is C_GetAttributeValue of one attribute.
func (*library) attribute(ctx *p11.Ctx, sh p11.SessionHandle, o p11.ObjectHandle, t uint) ([]byte, error) {
	got, err := ctx.GetAttributeValue(sh, o, []*p11.Attribute{p11.NewAttribute(t, nil)})
	if err != nil {
		return nil, err
	}
	return got[0].Value, nil
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

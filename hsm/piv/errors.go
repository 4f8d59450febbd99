package piv

import (
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Internal reasons to go and ask a person, or to look elsewhere.
var (
	errNeedPIN        = errors.New("the PIN is needed")
	errNeedManagement = errors.New("the management key is needed")
	errOtherCard      = errors.New("another card")
)

// foreign says that what is in a reader is no PIV card.
type foreign struct{ error }

func (f foreign) Unwrap() error { return f.error }

func isForeign(err error) bool {
	var f foreign
	return errors.As(err, &f)
}

func errForeign(name string, atr []byte) error {
	return foreign{hint.With(fmt.Errorf("reader %q: no PIV card (ATR %x): %w", name, atr, hsm.ErrUnsupported),
		"use it through its PKCS#11 module if it has one; on a YubiKey enable the PIV application with `ykman config usb "+
			"--enable PIV`")}
}

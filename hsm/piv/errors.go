package piv

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// The four ways in which there is no card to work with. All wrap [hsm.ErrNoToken].
var (
	ErrNoService = fmt.Errorf("%w: the smart card service is not running", hsm.ErrNoToken)
	ErrDenied    = fmt.Errorf("%w: %w", hsm.ErrNoToken, hsm.ErrDenied)
	ErrNoReader  = fmt.Errorf("%w: no smart card reader or YubiKey is connected", hsm.ErrNoToken)
	ErrNoCard    = fmt.Errorf("%w: no card is in the reader", hsm.ErrNoToken)
)

// Internal reasons to go and ask a person.
var (
	errNeedPIN        = errors.New("the PIN is needed")
	errNeedManagement = errors.New("the management key is needed")
	errOtherCard      = errors.New("another card")
)

func perOS(linux, darwin, windows string) string {
	switch runtime.GOOS {
	case "darwin":
		return darwin
	case "windows":
		return windows
	}
	return linux
}

func errNoService() error {
	return hint.With(ErrNoService, perOS("start it with `sudo systemctl enable --now pcscd.socket`, or install the package pcscd (pcsc-lite)", "plug the token in again; macOS starts its service then", "start the service \"Smart Card\" (SCardSvr), for example with `sc start SCardSvr`"))
}

func errDenied() error {
	return hint.With(ErrDenied, perOS("polkit allows only local sessions: log in at the machine, or let a polkit rule allow org.debian.pcsc-lite.access_pcsc and access_card", "allow this program to use smart cards in the privacy settings", "run it in the session that the token is connected to, not over remote desktop"))
}

func errNoReader() error {
	return hint.With(ErrNoReader, perOS("plug the token in; if it is, see whether `lsusb` lists it and the package for CCID readers (ccid) is installed, that CCID is enabled on the YubiKey (`ykman config usb`), and that gpg does not hold it by a driver of its own (`kubehsm token release`)", "plug the token in; if it is, see whether CCID is enabled on it (`ykman config usb`)", "plug the token in; if it is, see whether the device manager lists a smart card reader"))
}

func errNoCard(name string) error {
	return hint.With(fmt.Errorf("reader %q: %w", name, ErrNoCard), "insert the card")
}

// foreign says that what is in a reader is no PIV card.
type foreign struct{ error }

func (f foreign) Unwrap() error { return f.error }

func isForeign(err error) bool {
	var f foreign
	return errors.As(err, &f)
}

func errMute(name string) error {
	return foreign{hint.With(fmt.Errorf("reader %q: the card does not answer: %w", name, hsm.ErrUnsupported), "take it out and insert it again, the chip first")}
}

func errForeign(name string, atr []byte) error {
	return foreign{hint.With(fmt.Errorf("reader %q: no PIV card (ATR %x): %w", name, atr, hsm.ErrUnsupported), "use it through its PKCS#11 module if it has one; on a YubiKey enable the PIV application with `ykman config usb --enable PIV`")}
}

// errBusy names who likely holds the card.
func errBusy(name string) error { return &hsm.BusyError{Reader: name, Holders: holders()} }

package pcsc

import (
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// The ways in which there is no card to work with, beside [hsm.ErrDenied]. All wrap [hsm.ErrNoToken].
var (
	ErrNoService = fmt.Errorf("%w: the smart card service is not running", hsm.ErrNoToken)
	ErrNoReader  = fmt.Errorf("%w: no smart card reader or YubiKey is connected", hsm.ErrNoToken)
	ErrNoCard    = fmt.Errorf("%w: no card is in the reader", hsm.ErrNoToken)
)

// ErrMute says that what is in a reader gives no sign of life.
var ErrMute = fmt.Errorf("the card does not answer: %w", hsm.ErrUnsupported)

// ErrShortAnswer says that a card answered less than a status word: one that is pulled
// out while it works does.
var ErrShortAnswer = errors.New("the card's answer is cut off")

func noService() error {
	return hint.With(ErrNoService, hint.PerOS(
		"start it with `sudo systemctl enable --now pcscd.socket`, or install the package pcscd (pcsc-lite)",
		"plug the token in again; macOS starts its service then",
		"start the service \"Smart Card\", as an administrator: `Start-Service SCardSvr`"))
}

func denied() error {
	return hint.With(hsm.ErrDenied, hint.PerOS(
		"polkit allows only local sessions: log in at the machine, or let a polkit rule allow "+
			"org.debian.pcsc-lite.access_pcsc and access_card",
		"allow this program to use smart cards in the privacy settings",
		"run it in the session that the token is connected to, not over remote desktop"))
}

func noReader() error {
	return hint.With(ErrNoReader, hint.PerOS(
		"plug the token in; if it is plugged in, check that `lsusb` lists it, that the package for CCID readers (ccid) "+
			"is installed, that CCID is enabled on the YubiKey (`ykman config usb`), and that gpg does not hold it with "+
			"its own driver (`gpgconf --kill scdaemon`)",
		"plug the token in; if it is plugged in, check that CCID is enabled on it (`ykman config usb`)",
		"plug the token in; if it is plugged in, check that the device manager lists a smart card reader"))
}

func noCard(name string) error {
	return hint.With(fmt.Errorf("reader %q: %w", name, ErrNoCard), "insert the card")
}

func mute(name string) error {
	return hint.With(fmt.Errorf("reader %q: %w", name, ErrMute), "take it out and insert it again, the chip first")
}

// busy names who likely holds the card.
func busy(name string) error { return &hsm.BusyError{Reader: name, Holders: holders()} }

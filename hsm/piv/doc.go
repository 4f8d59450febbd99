// Package piv is the driver for YubiKeys and other PIV cards (NIST SP 800-73-4)
// in PC/SC readers.
//
// It makes tokens of cards: which card it is, wherever it is plugged in, when a
// person is asked for what, and in which order things are written. Package applet has
// the card's commands and what it stores, package pcsc the readers; neither knows
// this package.
//
// All commands are built in applet and go through one transport over PC/SC
// (github.com/ebfe/scard). github.com/go-piv/piv-go is not used by the driver, only
// by its tests, as another opinion on the same card: it takes PINs as strings that
// cannot be overwritten, opens only cards that know Yubico's GET VERSION, connects
// exclusively, so that nothing it lacks (delete, move, forgetting the PIN, the
// card's identity) could be sent in the same transaction, and leaves the PIN
// verified for the next program.
//
// # How a card is held
//
// Every operation connects, begins a transaction, selects the application,
// checks that it is the same card, works, forgets PIN and management key on the
// card, and lets it go. No connection outlives an operation and none is held
// while a person is asked, so ssh, gpg and age users share the card, and a
// replug, a swap or a restarted pcscd needs no special care. Operations on one
// reader are serialised within the process.
//
// # The PIN
//
// Unlocking keeps the PIN in memory until Lock, Close or the card's removal,
// and each operation that needs it verifies it again. A PIN that is held is
// never used for the last try, and is dropped when the card refuses it.
package piv

// Package vcard is a PIV card in software, to test against: it speaks to the
// real pcscd through vpcd, so that every layer between a driver and a card's
// application is the one that a physical YubiKey is reached through.
//
// The card follows NIST SP 800-73-4 part 2 and Yubico's published extensions
// (GET METADATA, ATTEST, IMPORT, SET MANAGEMENT KEY, RESET, MOVE KEY that
// deletes), with the differences between firmware versions. What a person or
// an accident does to a card is injected: a touch is a callback that blocks, a
// card is pulled out or swapped, counters are set, features are left out, and
// answers are replaced ([Fault]).
//
// A package tests with it like this:
//
//	func TestMain(m *testing.M) { os.Exit(vcard.Main(m)) }
//
//	func TestX(t *testing.T) {
//		lab := vcard.ForTest(t)
//		card := vcard.New(vcard.Config{Serial: 12345678})
//		lab.Insert(t, 0, card)
//		…
//	}
//
// [Main] runs the test binary again in private user, mount and network
// namespaces with its own pcscd, which works with and without root and never
// touches the machine's readers.
//
// The keys live in this process and the package is no model of security: it is
// for tests only.
package vcard

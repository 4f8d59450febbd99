package applet

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
)

// What a card is known by, as in [hsm.Details].
const (
	FromSerial = "serial"
	FromGUID   = "guid" // the GUID in the card holder unique identifier
	FromKey    = "key"  // a hash of the first key that has a certificate
)

// Version is a firmware version; zero: the card does not tell.
type Version [3]byte

// Known tells whether the card told its version.
func (v Version) Known() bool { return v != Version{} }

// Since tells whether v is known and major.minor or newer.
func (v Version) Since(major, minor byte) bool {
	return v[0] > major || v[0] == major && v[1] >= minor
}

// String is the version in digits, "" if it is not known.
func (v Version) String() string {
	if !v.Known() {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}

// Identity is what a card is, as far as it tells.
type Identity struct {
	Version Version
	Serial  string // a serial is empty only if the card has nothing to be known by
	From    string // [FromSerial], [FromGUID], [FromKey] or ""
}

// KeyIdentity names a card that has no name by the first key that it has a
// certificate for. A new certificate for the key keeps the name.
func KeyIdentity(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "key-" + hex.EncodeToString(sum[:8])
}

// formFactorName are the words for Yubico's form factor code, whose bit 7 marks a FIPS
// model and bit 6 a security key.
func formFactorName(code byte) string {
	switch code & 0x3f {
	case 1:
		return "USB-A keychain"
	case 2:
		return "USB-A nano"
	case 3:
		return "USB-C keychain"
	case 4:
		return "USB-C nano"
	case 5:
		return "USB-C and Lightning keychain"
	case 6:
		return "USB-A bio"
	case 7:
		return "USB-C bio"
	}
	return ""
}

package piv

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Kinds of identity, as in [hsm.Details].
const (
	fromSerial = "serial"
	fromGUID   = "guid"
	fromKey    = "key"
)

// version is a firmware version; zero: the card does not tell.
type version [3]byte

func (v version) known() bool { return v != version{} }

// since tells whether v is known and major.minor or newer.
func (v version) since(major, minor byte) bool {
	return v[0] > major || v[0] == major && v[1] >= minor
}

func (v version) String() string {
	if !v.known() {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
}

// identity is what a card is, as far as it tells.
type identity struct {
	version version
	serial  string // never empty unless the card has nothing to be known by
	from    string
}

// identify reads who the card is. A refused command is no error: the next best
// is taken.
func (s *session) identify() (identity, error) {
	var id identity
	b, err := s.send(command{ins: insGetVersion})
	switch {
	case err == nil && len(b) == 3:
		id.version = version(b)
	case !refused(err):
		return id, err
	}
	if id.version.known() {
		n, err := s.serial(id.version)
		if err == nil {
			id.serial, id.from = strconv.FormatUint(uint64(n), 10), fromSerial
			return id, nil
		}
		if !refused(err) {
			return id, err
		}
	}
	if id.serial, err = s.guid(); err == nil && id.serial != "" {
		id.from = fromGUID
		return id, nil
	} else if !refused(err) {
		return id, err
	}
	for _, slot := range slots() {
		cert, err := s.certificate(slot)
		if !refused(err) {
			return id, err
		}
		if cert != nil {
			id.serial, id.from = keyIdentity(cert), fromKey
			break
		}
	}
	return id, nil
}

// refused tells whether err is nil or the card's own refusal or nonsense, as
// opposed to a lost card or an operation that was given up.
func refused(err error) bool {
	return err == nil || isNonsense(err) || statusOf(err) != 0
}

// serial reads Yubico's serial: by PIV since firmware 5, by the OTP
// application before.
func (s *session) serial(v version) (uint32, error) {
	var b []byte
	var err error
	if v.since(5, 0) {
		b, err = s.send(command{ins: insGetSerial})
	} else {
		err = s.elsewhere(aidOTP, func() (err error) {
			b, err = s.send(command{ins: insOTPSerial, p1: 0x10})
			return err
		})
	}
	if err != nil {
		return 0, err
	}
	if len(b) != 4 || binary.BigEndian.Uint32(b) == 0 {
		return 0, errTLV
	}
	return binary.BigEndian.Uint32(b), nil
}

// guid reads the GUID of the card holder unique identifier (SP 800-73-4 part 1
// table 9) as 32 hex digits, "" if there is none or an empty one.
func (s *session) guid() (string, error) {
	content, err := s.getObject(objectCHUID)
	if err != nil || len(content) == 0 {
		return "", err
	}
	fields, err := parseTLV(content)
	if err != nil {
		return "", err
	}
	guid, _ := fields.get(0x34)
	if len(guid) != 16 || [16]byte(guid) == ([16]byte{}) {
		return "", nil
	}
	return hex.EncodeToString(guid), nil
}

// keyIdentity names a card that has no name by the first key that it has a
// certificate for. A new certificate for the key keeps the name.
func keyIdentity(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "key-" + hex.EncodeToString(sum[:8])
}

// formFactor reads Yubico's form factor byte from the management application,
// 0 if it does not tell. Bit 7 marks a FIPS model, bit 6 a security key.
func (s *session) formFactor() (byte, error) {
	var code byte
	err := s.elsewhere(aidManagement, func() error {
		b, err := s.send(command{ins: insReadConfig})
		if err != nil {
			return err
		}
		if len(b) < 1 || int(b[0]) != len(b)-1 {
			return errTLV
		}
		fields, err := parseTLV(b[1:])
		if err != nil {
			return err
		}
		if v, ok := fields.get(0x04); ok && len(v) == 1 {
			code = v[0]
		}
		return nil
	})
	if err != nil && refused(err) {
		return 0, nil
	}
	return code, err
}

// formFactorName is the words for Yubico's form factor code.
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

package applet

import (
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
)

// metadata is the answer to Yubico's GET METADATA (firmware 5.3).
type metadata struct {
	algorithm   byte
	pin, touch  byte
	origin      byte
	public      []byte
	isDefault   bool
	total, left int
	hasTries    bool
}

// errNoReference: the card knows the command, but there is nothing.
var errNoReference = errors.New("nothing there")

// holdsKey tells whether ref is a slot, and no PIN or management key.
func holdsKey(ref byte) bool { return ref != refPIN && ref != refPUK && ref != refManagement }

// bare tells that no key is described: some cards answer for an empty slot with
// the policies that a key would have there.
func (m metadata) bare() bool { return m.algorithm == 0 && len(m.public) == 0 && m.origin == 0 }

func parseMetadata(b []byte) (metadata, error) {
	var m metadata
	fields, err := parseTLV(b)
	if err != nil {
		return m, nonsense{err}
	}
	for _, f := range fields {
		v := f.value
		switch {
		case f.tag == 0x01 && len(v) == 1:
			m.algorithm = v[0]
		case f.tag == 0x02 && len(v) == 2:
			m.pin, m.touch = v[0], v[1]
		case f.tag == 0x03 && len(v) == 1:
			m.origin = v[0]
		case f.tag == 0x04:
			m.public = v
		case f.tag == 0x05 && len(v) == 1:
			m.isDefault = v[0] != 0
		case f.tag == 0x06 && len(v) == 2:
			m.total, m.left, m.hasTries = int(v[0]), int(v[1]), true
		}
	}
	if len(fields) == 0 {
		return m, nonsense{errTLV}
	}
	return m, nil
}

// key reads the metadata of a slot.
func (m metadata) key() (*hsm.Key, error) {
	pub, err := parsePublic(m.algorithm, m.public)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	k := &hsm.Key{Algorithm: hsm.AlgorithmOf(pub), Public: pub, PIN: pinPolicy(m.pin), Touch: touchPolicy(m.touch)}
	switch m.origin {
	case 1:
		k.Origin = hsm.Generated
	case 2:
		k.Origin = hsm.Imported
	}
	return k, nil
}

// pinPolicy reads Yubico's code. The biometric policies (4, 5) match a finger
// or the PIN, as once and always do.
func pinPolicy(code byte) hsm.PINPolicy {
	switch code {
	case 1:
		return hsm.PINNever
	case 2, 4:
		return hsm.PINOnce
	case 3, 5:
		return hsm.PINAlways
	}
	return hsm.PINDefault
}

// touchPolicy reads Yubico's code, whose order is not ours.
func touchPolicy(code byte) hsm.TouchPolicy {
	switch code {
	case 1:
		return hsm.TouchNever
	case 2:
		return hsm.TouchAlways
	case 3:
		return hsm.TouchCached
	}
	return hsm.TouchDefault
}

func pinCode(p hsm.PINPolicy) byte { return byte(p) }

func touchCode(p hsm.TouchPolicy) byte {
	return map[hsm.TouchPolicy]byte{hsm.TouchNever: 1, hsm.TouchAlways: 2, hsm.TouchCached: 3}[p]
}

package vcard

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

var errTLV = errors.New("malformed TLV")

// tlv is one BER-TLV object of a command.
type tlv struct {
	tag   byte
	value []byte
}

// parseTLV reads all objects of b (ISO/IEC 7816-4 section 5.2.2). Commands have tags of one byte
// and definite lengths.
func parseTLV(b []byte) (all []tlv, err error) {
	for len(b) > 0 {
		if len(b) < 2 {
			return nil, errTLV
		}
		tag, n := b[0], int(b[1])
		b = b[2:]
		if n >= 0x80 {
			width := n & 0x7f
			if width > 2 || len(b) < width {
				return nil, errTLV
			}
			n = 0
			for _, x := range b[:width] {
				n = n<<8 | int(x)
			}
			b = b[width:]
		}
		if len(b) < n {
			return nil, errTLV
		}
		all, b = append(all, tlv{tag, b[:n]}), b[n:]
	}
	return all, nil
}

// find returns the value of the first object tagged tag.
func find(all []tlv, tag byte) ([]byte, bool) {
	i := slices.IndexFunc(all, func(t tlv) bool { return t.tag == tag })
	if i < 0 {
		return nil, false
	}
	return all[i].value, true
}

// put encodes one object out of the concatenated parts; its tag is of one or two bytes.
func put(tag uint16, parts ...[]byte) []byte {
	value := slices.Concat(parts...)
	out := []byte{byte(tag)}
	if tag > math.MaxUint8 {
		out = binary.BigEndian.AppendUint16(nil, tag)
	}
	switch n := len(value); {
	case n < 0x80:
		out = append(out, byte(n))
	case n <= math.MaxUint8:
		out = append(out, 0x81, byte(n))
	default:
		out = binary.BigEndian.AppendUint16(append(out, 0x82), uint16(n))
	}
	return append(out, value...)
}

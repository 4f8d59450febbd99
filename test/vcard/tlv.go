package vcard

import (
	"encoding/binary"
	"errors"
	"math"
)

var errTLV = errors.New("malformed TLV")

// tlv is one BER-TLV object of a command.
type tlv struct {
	tag   uint32
	value []byte
}

// parseTLV reads all objects of b (ISO/IEC 7816-4 section 5.2.2): tags of one to
// three bytes, definite lengths.
func parseTLV(b []byte) ([]tlv, error) {
	var all []tlv
	for len(b) > 0 {
		t, rest, err := nextTLV(b)
		if err != nil {
			return nil, err
		}
		all, b = append(all, t), rest
	}
	return all, nil
}

func nextTLV(b []byte) (tlv, []byte, error) {
	tag := uint32(b[0])
	b = b[1:]
	if tag&0x1f == 0x1f {
		for range 2 {
			if len(b) == 0 {
				return tlv{}, nil, errTLV
			}
			last := b[0]&0x80 == 0
			tag, b = tag<<8|uint32(b[0]), b[1:]
			if last {
				break
			}
		}
	}
	if len(b) == 0 {
		return tlv{}, nil, errTLV
	}
	n := int(b[0])
	b = b[1:]
	if n >= 0x80 {
		width := n & 0x7f
		if width < 1 || width > 3 || len(b) < width {
			return tlv{}, nil, errTLV
		}
		n = 0
		for _, c := range b[:width] {
			n = n<<8 | int(c)
		}
		b = b[width:]
	}
	if len(b) < n {
		return tlv{}, nil, errTLV
	}
	return tlv{tag, b[:n]}, b[n:], nil
}

// find returns the value of the first object tagged tag.
func find(all []tlv, tag uint32) ([]byte, bool) {
	for _, t := range all {
		if t.tag == tag {
			return t.value, true
		}
	}
	return nil, false
}

// put encodes one object out of the concatenated parts.
func put(tag uint32, parts ...[]byte) []byte {
	var value []byte
	for _, p := range parts {
		value = append(value, p...)
	}
	var out []byte
	started := false
	for shift := 24; shift >= 0; shift -= 8 {
		if b := byte(tag >> shift); b != 0 || started || shift == 0 {
			out, started = append(out, b), true
		}
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

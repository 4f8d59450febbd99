package applet

import (
	"encoding/binary"
	"errors"
	"math"
)

var errTLV = errors.New("malformed answer")

// object is one BER-TLV data object.
type object struct {
	tag   uint32
	value []byte
}

type objects []object

// parseTLV reads the objects of b (ISO/IEC 7816-4 section 5.2.2): tags of at
// most three bytes, definite lengths. Values share b's memory.
func parseTLV(b []byte) (objects, error) {
	var all objects
	for len(b) > 0 {
		o, rest, err := cutTLV(b)
		if err != nil {
			return nil, err
		}
		all, b = append(all, o), rest
	}
	return all, nil
}

func cutTLV(b []byte) (object, []byte, error) {
	tag, b := uint32(b[0]), b[1:]
	for n := 0; tag&0x1f == 0x1f && n < 2; n++ {
		if len(b) == 0 {
			return object{}, nil, errTLV
		}
		tag, b = tag<<8|uint32(b[0]), b[1:]
		if tag&0x80 == 0 {
			break
		}
	}
	if len(b) == 0 {
		return object{}, nil, errTLV
	}
	n, b := int(b[0]), b[1:]
	if n >= 0x80 {
		width := n & 0x7f
		if width < 1 || width > 3 || len(b) < width {
			return object{}, nil, errTLV
		}
		n = 0
		for _, c := range b[:width] {
			n = n<<8 | int(c)
		}
		b = b[width:]
	}
	if len(b) < n {
		return object{}, nil, errTLV
	}
	return object{tag, b[:n]}, b[n:], nil
}

// get returns the value of the first object with the tag.
func (all objects) get(tag uint32) ([]byte, bool) {
	for _, o := range all {
		if o.tag == tag {
			return o.value, true
		}
	}
	return nil, false
}

// unwrap returns the value of the one object with the tag that b starts with.
func unwrap(b []byte, tag uint32) ([]byte, error) {
	all, err := parseTLV(b)
	if err != nil {
		return nil, err
	}
	v, ok := all.get(tag)
	if !ok {
		return nil, errTLV
	}
	return v, nil
}

// tlv encodes one object out of the concatenated parts, less than 64 KiB.
func tlv(tag uint32, parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	out := make([]byte, 0, n+8)
	for shift := 24; shift > 0; shift -= 8 {
		if tag>>shift != 0 {
			out = append(out, byte(tag>>shift))
		}
	}
	out = append(out, byte(tag))
	switch {
	case n < 0x80:
		out = append(out, byte(n))
	case n <= math.MaxUint8:
		out = append(out, 0x81, byte(n))
	default:
		out = binary.BigEndian.AppendUint16(append(out, 0x82), uint16(n))
	}
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

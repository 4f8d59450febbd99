package vcard

import (
	"bytes"
	"slices"
)

// Data objects (SP 800-73-4 part 1 table 3).
const (
	objectCHUID       = 0x5fc102
	objectPrinted     = 0x5fc109
	objectDiscovery   = 0x7e
	objectAttestation = 0x5fff01
	objectLimit       = 3052 // bytes, Yubico's documentation
)

// guarded objects are read only after the PIN was verified.
var guarded = []uint32{0x5fc103, objectPrinted, 0x5fc108, 0x5fc121}

// objectID reads the tag list of GET and PUT DATA.
func objectID(objects []tlv) (uint32, bool) {
	b, ok := find(objects, 0x5c)
	if !ok || len(b) == 0 || len(b) > 3 {
		return 0, false
	}
	var id uint32
	for _, x := range b {
		id = id<<8 | uint32(x)
	}
	return id, true
}

// getData is GET DATA (SP 800-73-4 part 2 section 3.1.2).
func (c *Card) getData(cmd command) ([]byte, uint16) {
	objects, err := parseTLV(cmd.data)
	id, ok := objectID(objects)
	if err != nil || !ok || cmd.p1 != 0x3f || cmd.p2 != 0xff {
		return nil, swWrongData
	}
	if id == objectDiscovery {
		return put(0x7e, put(0x4f, []byte{0xa0, 0, 0, 3, 8, 0, 0, 0x10, 0, 1, 0}), put(0x5f2f, []byte{0x40, 0})), swOK
	}
	if slices.Contains(guarded, id) && !c.verified {
		return nil, swNotSatisfied
	}
	content, ok := c.objects[id]
	if !ok {
		return nil, swNotFound
	}
	return put(0x53, content), swOK
}

// putData is PUT DATA (section 3.3.1); an empty content deletes.
func (c *Card) putData(cmd command) uint16 {
	objects, err := parseTLV(cmd.data)
	id, ok := objectID(objects)
	content, has := find(objects, 0x53)
	switch {
	case !c.managed:
		return swNotSatisfied
	case err != nil || !ok || !has || cmd.p1 != 0x3f || cmd.p2 != 0xff:
		return swWrongData
	case len(content) > objectLimit:
		return 0x6a84
	case len(content) == 0:
		delete(c.objects, id)
	default:
		c.objects[id] = bytes.Clone(content)
	}
	if sw, refused := c.config.Ways.KeptAs[id]; refused {
		return sw
	}
	return swOK
}

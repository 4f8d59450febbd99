package vcard

import "crypto/subtle"

// References of SP 800-73-4 part 1, table 4b.
const (
	refPIN        = 0x80
	refPUK        = 0x81
	refManagement = 0x9b
)

// blocked is what a card answers that has no try left.
func (c *Card) blocked() uint16 {
	if c.config.Ways.BlockedAsZero {
		return swPINWrong
	}
	return swBlocked
}

// try compares value with s and keeps the counter.
func (c *Card) try(s *secret, value []byte) uint16 {
	if s.left == 0 {
		return c.blocked()
	}
	if subtle.ConstantTimeCompare(value, s.value[:]) != 1 {
		s.left--
		if s.left == 0 {
			return c.blocked()
		}
		return swPINWrong | uint16(min(s.left, 15))
	}
	s.left = s.total
	return swOK
}

func (s *secret) set(value []byte, factory string) {
	copy(s.value[:], value)
	s.left, s.isDefault = s.total, s.value == pad(factory)
}

// verify is VERIFY (SP 800-73-4 part 2 section 3.2.1).
func (c *Card) verify(cmd command) uint16 {
	switch {
	case cmd.p2 != refPIN:
		return swReferenceNotFound
	case cmd.p1 == 0xff && c.has(Deverify) && len(cmd.data) == 0:
		c.verified = false
		return swOK
	case cmd.p1 != 0:
		return swWrongP1P2
	case len(cmd.data) == 0 && c.verified && c.has(Status):
		return swOK
	case len(cmd.data) == 0 && c.pin.left == 0:
		return c.blocked()
	case len(cmd.data) == 0:
		return swPINWrong | uint16(min(c.pin.left, 15))
	case len(cmd.data) != 8:
		return swWrongData
	}
	sw := c.try(&c.pin, cmd.data)
	c.verified = sw == swOK
	c.fresh = c.verified
	return sw
}

// changeReference is CHANGE REFERENCE DATA (section 3.2.2).
func (c *Card) changeReference(cmd command) uint16 {
	s, factory := &c.pin, DefaultPIN
	switch {
	case cmd.p1 != 0 || cmd.p2 != refPIN && cmd.p2 != refPUK:
		return swWrongP1P2
	case len(cmd.data) != 16:
		return swWrongData
	case cmd.p2 == refPUK:
		s, factory = &c.puk, DefaultPUK
	}
	if !goodPIN(cmd.data[8:]) {
		return swWrongData
	}
	sw := c.try(s, cmd.data[:8])
	if sw == swOK {
		s.set(cmd.data[8:], factory)
	} else if cmd.p2 == refPIN {
		c.verified = false
	}
	return sw
}

// resetRetry is RESET RETRY COUNTER (section 3.2.3).
func (c *Card) resetRetry(cmd command) uint16 {
	switch {
	case cmd.p1 != 0 || cmd.p2 != refPIN:
		return swWrongP1P2
	case len(cmd.data) != 16 || !goodPIN(cmd.data[8:]):
		// A bad new PIN with a bad PUK still has to block the PUK: tools reset so.
		if len(cmd.data) != 16 || c.puk.value == [8]byte(cmd.data[:8]) {
			return swWrongData
		}
	}
	sw := c.try(&c.puk, cmd.data[:8])
	if sw == swOK {
		c.pin.set(cmd.data[8:], DefaultPIN)
		c.verified = false
	}
	return sw
}

// goodPIN tells whether b is 6 to 8 bytes padded with FF.
func goodPIN(b []byte) bool {
	n := 0
	for n < 8 && b[n] != 0xff {
		n++
	}
	for _, x := range b[n:] {
		if x != 0xff {
			return false
		}
	}
	return n >= 6
}

// reset is Yubico's RESET: only when PIN and PUK are both locked.
func (c *Card) reset() uint16 {
	if c.pin.left > 0 || c.puk.left > 0 {
		return swConditions
	}
	c.factory()
	c.app = appPIV
	return swOK
}

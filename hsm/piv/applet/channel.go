package applet

import (
	"context"
	"errors"

	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
)

// Applications (SP 800-73-4 part 1 section 2.2; Yubico).
var (
	aidPIV        = []byte{0xa0, 0x00, 0x00, 0x03, 0x08}
	aidManagement = []byte{0xa0, 0x00, 0x00, 0x05, 0x27, 0x47, 0x11, 0x17}
	aidOTP        = []byte{0xa0, 0x00, 0x00, 0x05, 0x27, 0x20, 0x01, 0x01}
)

// channel carries commands to the application that is selected, and knows what was
// proved to it.
type channel struct {
	ctx  context.Context
	op   *Operation
	card pcsc.Card
	// told is the answer to SELECT, the application property template.
	told []byte
	// version is what the card says of its firmware. It is for words: what a card can do is
	// asked, see [Session.Ask].
	version Version
	// mute and attestsNot tell that the card does not know GET METADATA or ATTEST.
	mute, attestsNot bool
	// verified and managed: PIN or management key count as proved on the card.
	verified, managed bool
}

// commit begins what must not be left half-way: from here on the caller waits
// for the end. It fails if the caller has left already.
func (c *channel) commit() error {
	if !c.op.commit() {
		return c.ctx.Err()
	}
	c.ctx = context.WithoutCancel(c.ctx)
	return nil
}

// send sends one command, unless the operation was given up.
func (c *channel) send(cmd command) ([]byte, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	return c.sendAnyway(cmd)
}

// sendAnyway is send for what must be done also when the operation was given up.
func (c *channel) sendAnyway(cmd command) ([]byte, error) { return exchange(c.card.Transmit, cmd) }

// knows asks whether the card knows a command that it cannot carry out as it is.
func (c *channel) knows(cmd command) (bool, error) {
	_, err := c.send(cmd)
	if err != nil && !Refused(err) {
		return false, err
	}
	return !isStatus(err, swUnknownINS, swUnknownClass, swFunction), nil
}

func (c *channel) selectApp(aid []byte) error {
	b, err := c.sendAnyway(command{ins: insSelect, p1: 0x04, data: aid})
	if err == nil && len(aid) == len(aidPIV) { // the others are longer
		c.told = b
	}
	return err
}

// elsewhere runs f with another application selected, then PIV again. What
// was proved to the card is gone after it.
func (c *channel) elsewhere(aid []byte, f func() error) error {
	if err := c.selectApp(aid); err != nil {
		return err // PIV stays selected
	}
	c.verified, c.managed = false, false
	return errors.Join(f(), c.selectApp(aidPIV))
}

// forget makes the card forget what was proved to it. Ways to forget, the mildest
// first: the PIN alone (SP 800-73-4 part 2 section 3.2.1, P1 = FF), a change of
// application. It returns false if neither did.
func (c *channel) forget() bool {
	if !c.verified && !c.managed {
		return true
	}
	if !c.managed {
		if _, err := c.sendAnyway(command{ins: insVerify, p1: 0xff, p2: refPIN}); err == nil && !c.isVerified() {
			c.verified = false
			return true
		}
	}
	for _, aid := range [][]byte{aidManagement, aidOTP} {
		if c.elsewhere(aid, func() error { return nil }) == nil && !c.isVerified() {
			return true
		}
	}
	return false
}

// isVerified asks the card whether the PIN counts as verified. A card that
// does not answer clearly counts as one where it is.
func (c *channel) isVerified() bool {
	_, err := c.sendAnyway(command{ins: insVerify, p2: refPIN})
	_, counted := triesLeft(err)
	return !counted
}

// metadata reads what the card says of a PIN or key.
func (c *channel) metadata(ref byte) (metadata, error) {
	if c.mute {
		return metadata{}, swUnknownINS
	}
	b, err := c.send(command{ins: insGetMetadata, p2: ref})
	c.mute = isStatus(err, swUnknownINS, swUnknownClass)
	if isStatus(err, swNoReference, swNotFound) {
		return metadata{}, errNoReference
	}
	if err != nil {
		return metadata{}, err
	}
	m, err := parseMetadata(b)
	if err == nil && holdsKey(ref) && m.bare() {
		err = errNoReference
	}
	return m, err
}

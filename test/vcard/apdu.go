package vcard

import "encoding/binary"

// Status words (ISO/IEC 7816-4 section 5.1.3, SP 800-73-4 part 2).
const (
	swOK                = 0x9000
	swMore              = 0x6100
	swWrongLength       = 0x6700
	swNotSatisfied      = 0x6982
	swBlocked           = 0x6983
	swConditions        = 0x6985
	swWrongData         = 0x6a80
	swNotSupported      = 0x6a81
	swNotFound          = 0x6a82
	swWrongP1P2         = 0x6a86
	swReferenceNotFound = 0x6a88
	swINSNotSupported   = 0x6d00
	swCLANotSupported   = 0x6e00
	swWrongLe           = 0x6c00

	swChainingNotSupported = 0x6884
	swPINWrong             = 0x63c0
)

// The instructions that the card knows.
const (
	INSVerify          = 0x20
	INSChangeReference = 0x24
	INSResetRetry      = 0x2c
	INSGenerate        = 0x47
	INSAuthenticate    = 0x87
	INSSelect          = 0xa4
	INSGetResponse     = 0xc0
	INSGetData         = 0xcb
	INSPutData         = 0xdb
	INSMoveKey         = 0xf6
	INSGetMetadata     = 0xf7
	INSGetSerial       = 0xf8
	INSAttest          = 0xf9
	INSReset           = 0xfb
	INSGetVersion      = 0xfd
	INSImport          = 0xfe
	INSSetManagement   = 0xff
)

// command is one command APDU, chained parts joined.
type command struct {
	cla, ins, p1, p2 byte
	data             []byte
	extended         bool // the answer may be longer than 256 bytes
	le               int  // bytes wanted at most, if it is not extended; 256 if not said
}

// parseCommand reads a short or extended APDU (ISO/IEC 7816-3 section 12.1).
func parseCommand(b []byte) (command, bool) {
	if len(b) < 4 {
		return command{}, false
	}
	c := command{cla: b[0], ins: b[1], p1: b[2], p2: b[3], le: 256}
	body := b[4:]
	switch {
	case len(body) <= 1: // no data; Le or nothing
		c.want(body)
		return c, true
	case body[0] == 0 && len(body) == 3: // extended Le
		c.extended = true
		return c, true
	case body[0] == 0 && len(body) > 3: // extended Lc
		c.extended = true
		n := int(binary.BigEndian.Uint16(body[1:]))
		body = body[3:]
		if len(body) != n && len(body) != n+2 {
			return c, false
		}
		c.data = body[:n]
		return c, true
	}
	n := int(body[0])
	body = body[1:]
	if n == 0 || len(body) != n && len(body) != n+1 {
		return c, false
	}
	c.data = body[:n]
	c.want(body[n:])
	return c, true
}

// want reads a short Le, if there is one; 0 stands for 256.
func (c *command) want(le []byte) {
	if len(le) == 1 && le[0] != 0 {
		c.le = int(le[0])
	}
}

// Exchange is one line of the card's log: the header of a command and the
// status word of its answer. Data is not kept: it may be a PIN.
type Exchange struct {
	INS, P1, P2 byte
	Length      int // length of the command's data in bytes
	SW          uint16
}

// chainLimit bounds a chained command, in bytes.
const chainLimit = 1 << 14

// Process answers one APDU as it came from the reader. It blocks while the
// card waits for a touch; done is closed when the card is pulled out. No answer
// (nil) means that a fault pulls the card out.
func (c *Card) Process(raw []byte, done <-chan struct{}) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd, ok := parseCommand(raw)
	if !ok {
		return answer(nil, swWrongLength)
	}
	switch {
	case cmd.cla&^0x10 != 0:
		return answer(nil, swCLANotSupported)
	case cmd.ins == INSGetResponse:
		return c.more(nil, swOK, cmd)
	case cmd.cla&0x10 != 0 && c.config.Ways.NoChaining:
		return answer(nil, swChainingNotSupported)
	case cmd.cla&0x10 != 0:
		if len(c.chain)+len(cmd.data) > chainLimit {
			c.chain = nil
			return answer(nil, swWrongLength)
		}
		c.chain = append(c.chain, cmd.data...)
		return answer(nil, swOK)
	}
	if len(c.chain) > 0 {
		cmd.data, c.chain = append(c.chain, cmd.data...), nil
	}
	c.pending = nil
	data, sw := c.run(cmd, done)
	c.log = append(c.log, Exchange{cmd.ins, cmd.p1, cmd.p2, len(cmd.data), sw})
	if sw == 0 {
		return nil
	}
	return c.more(data, sw, cmd)
}

// more answers cmd with data, or with as much as it wants and 61xx.
func (c *Card) more(data []byte, sw uint16, cmd command) []byte {
	if data == nil {
		data = c.pending
		c.pending = nil
	}
	part := cmd.le
	if most := c.config.Ways.Portion; most > 0 {
		part = min(part, most)
	}
	exact := cmd.ins == INSGetResponse && c.config.Ways.ExactLe
	switch {
	case exact && len(data) > 0 && cmd.le != min(part, len(data)) && cmd.le != len(data):
		c.pending = data // SP 800-73-4 leaves it to ISO/IEC 7816-4: say it again with this length
		return answer(nil, swWrongLe|uint16(min(len(data), part)))
	case cmd.extended && c.config.Ways.Portion == 0 || len(data) <= part:
		return answer(data, sw)
	}
	c.pending = data[part:]
	return answer(data[:part], swMore|uint16(min(len(c.pending), 0xff)))
}

func answer(data []byte, sw uint16) []byte {
	return binary.BigEndian.AppendUint16(append([]byte(nil), data...), sw)
}

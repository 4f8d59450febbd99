package applet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
)

// Instructions (SP 800-73-4 part 2; from insMoveKey on Yubico's extensions).
const (
	insVerify          = 0x20
	insChangeReference = 0x24
	insResetRetry      = 0x2c
	insGenerate        = 0x47
	insAuthenticate    = 0x87
	insSelect          = 0xa4
	insGetResponse     = 0xc0
	insGetData         = 0xcb
	insPutData         = 0xdb
	insMoveKey         = 0xf6
	insGetMetadata     = 0xf7
	insGetSerial       = 0xf8
	insAttest          = 0xf9
	insReset           = 0xfb
	insGetVersion      = 0xfd
	insSetManagement   = 0xff
	insOTPSerial       = 0x01 // in the OTP application
	insReadConfig      = 0x1d // in the management application
)

// Status is a card's status word other than 9000.
type Status uint16

// NotSatisfied says that a PIN, a management key or a touch is missing.
const NotSatisfied Status = 0x6982

const (
	swBlocked      Status = 0x6983
	swConditions   Status = 0x6985
	swWrongData    Status = 0x6a80
	swNotFound     Status = 0x6a82
	swNoSpace      Status = 0x6a84
	swWrongP1P2    Status = 0x6a86
	swNoReference  Status = 0x6a88
	swUnknownINS   Status = 0x6d00
	swUnknownClass Status = 0x6e00
	swFunction     Status = 0x6a81
	swNoChaining   Status = 0x6884
	swWrongLength  Status = 0x6700
	swNoINSOrMoved Status = 0x6b00
)

const (
	statusPINWrong  = 0x63
	statusMoreBytes = 0x61
	statusBadLength = 0x6c
	maxPauses       = 2       // answers without a byte that are followed, between two with some
	maxAnswer       = 1 << 16 // bytes; a card that chains on for ever is cut off
	maxCommandChunk = 255
)

func (s Status) Error() string {
	text := map[Status]string{
		NotSatisfied:  "security status not satisfied",
		swBlocked:     "authentication method blocked",
		swConditions:  "conditions of use not satisfied",
		swWrongData:   "wrong data",
		swNotFound:    "not found",
		swNoSpace:     "not enough space",
		swWrongP1P2:   "wrong parameters",
		swNoReference: "reference not found",
		swUnknownINS:  "unknown instruction",
	}[s]
	if text != "" {
		text = ": " + text
	}
	return fmt.Sprintf("card status %04x%s", uint16(s), text)
}

// Unknown tells whether s means that the card does not know the command.
func (s Status) Unknown() bool {
	return s == swUnknownINS || s == swUnknownClass || s == swFunction || s == swNoINSOrMoved
}

// StatusOf returns the card's status word in err, 0 if there is none.
func StatusOf(err error) Status {
	var s Status
	errors.As(err, &s)
	return s
}

// nonsense is an answer that does not mean anything: the card is there, but
// what it says is malformed.
type nonsense struct{ err error }

func (n nonsense) Error() string { return "malformed answer of the card: " + n.err.Error() }
func (n nonsense) Unwrap() error { return n.err }

func isNonsense(err error) bool {
	var n nonsense
	return errors.As(err, &n) || errors.Is(err, errTLV)
}

// Refused tells whether err is nil or the card's own refusal or nonsense, as
// opposed to a lost card or an operation that was given up.
func Refused(err error) bool { return err == nil || isNonsense(err) || StatusOf(err) != 0 }

// isStatus tells whether err is one of the given status words.
func isStatus(err error, any ...Status) bool {
	var s Status
	if !errors.As(err, &s) {
		return false
	}
	for _, a := range any {
		if s == a {
			return true
		}
	}
	return false
}

// triesLeft reads the counter out of the status of VERIFY and its like: 63Cx, and
// 630x of the oldest YubiKeys.
func triesLeft(err error) (int, bool) {
	var s Status
	switch {
	case !errors.As(err, &s):
		return 0, false
	case s == swBlocked:
		return 0, true
	case byte(s>>8) == statusPINWrong:
		return int(s & 0x0f), true
	}
	return 0, false
}

// command is a command APDU without its framing.
type command struct {
	ins, p1, p2 byte
	data        []byte
}

// exchange sends c, chained if it is long, and collects the whole answer
// (ISO/IEC 7816-4 section 5.1.1: command chaining, GET RESPONSE). A card that does not
// chain gets an extended command.
func exchange(transmit func([]byte) ([]byte, error), c command) ([]byte, error) {
	data := c.data
	for len(data) > maxCommandChunk {
		_, err := single(transmit, 0x10, c, data[:maxCommandChunk])
		if isStatus(err, swNoChaining, swUnknownClass) && len(data) == len(c.data) {
			return extended(transmit, c)
		}
		if err != nil {
			return nil, err
		}
		data = data[maxCommandChunk:]
	}
	return single(transmit, 0x00, c, data)
}

// extended sends c as one extended command (ISO/IEC 7816-4 section 5.1).
func extended(transmit func([]byte) ([]byte, error), c command) ([]byte, error) {
	req := append(make([]byte, 0, 9+len(c.data)), 0, c.ins, c.p1, c.p2, 0)
	req = append(binary.BigEndian.AppendUint16(req, uint16(len(c.data))), c.data...)
	if answersData(c.ins) {
		req = append(req, 0, 0)
	}
	return collect(transmit, c, req)
}

// answersData tells whether an instruction is answered by more than a status.
func answersData(ins byte) bool {
	switch ins {
	case insSelect, insGenerate, insAuthenticate, insGetData, insGetMetadata, insGetSerial, insGetVersion, insAttest,
		insOTPSerial, insReadConfig:
		return true
	}
	return false
}

func single(transmit func([]byte) ([]byte, error), class byte, c command, data []byte) ([]byte, error) {
	req := make([]byte, 0, 6+len(data))
	req = append(req, class, c.ins, c.p1, c.p2)
	if len(data) > 0 {
		req = append(append(req, byte(len(data))), data...)
	}
	if class == 0 && answersData(c.ins) {
		req = append(req, 0) // Le: as much as there is
	}
	return collect(transmit, c, req)
}

// collect sends a request and gathers its answer. A card that says that there is more and
// brings nothing is not followed for ever.
func collect(transmit func([]byte) ([]byte, error), c command, req []byte) ([]byte, error) {
	defer clear(req) // req may contain a PIN
	var out []byte
	for pauses := 0; ; pauses++ {
		answer, err := transmit(req)
		if err != nil {
			return nil, err
		}
		if len(answer) < 2 {
			return nil, pcsc.ErrShortAnswer
		}
		body, sw := answer[:len(answer)-2], binary.BigEndian.Uint16(answer[len(answer)-2:])
		if out = append(out, body...); len(body) > 0 {
			pauses = 0
		}
		clear(body) // body may contain the management key that the card keeps
		switch {
		case sw == 0x9000:
			return out, nil
		case pauses > maxPauses:
			return nil, nonsense{errTLV}
		case sw>>8 == statusMoreBytes && len(out) <= maxAnswer:
			req = append(req[:0:0], 0, insGetResponse, 0, 0, byte(sw))
		case sw>>8 == statusBadLength && answersData(c.ins) && req[len(req)-1] != byte(sw):
			req[len(req)-1] = byte(sw)
		default:
			return nil, Status(sw)
		}
	}
}

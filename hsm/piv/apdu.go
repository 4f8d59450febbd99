package piv

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	insSetRetries      = 0xfa
	insReset           = 0xfb
	insGetVersion      = 0xfd
	insSetManagement   = 0xff
	insOTPSerial       = 0x01 // in the OTP application
	insReadConfig      = 0x1d // in the management application
)

// status is a card's status word other than 9000.
type status uint16

const (
	swNotSatisfied  status = 0x6982
	swBlocked       status = 0x6983
	swConditions    status = 0x6985
	swWrongData     status = 0x6a80
	swNotFound      status = 0x6a82
	swNoSpace       status = 0x6a84
	swWrongP1P2     status = 0x6a86
	swNoReference   status = 0x6a88
	swUnknownINS    status = 0x6d00
	swUnknownClass  status = 0x6e00
	swFunction      status = 0x6a81
	swWrongLength   status = 0x6700
	swNoINSOrMoved  status = 0x6b00
	statusPINWrong         = 0x63
	statusMoreBytes        = 0x61
	statusBadLength        = 0x6c
	maxAnswer              = 1 << 16 // bytes; a card that chains on for ever is cut off
	maxCommandChunk        = 255
)

func (s status) Error() string {
	text := map[status]string{
		swNotSatisfied: "security status not satisfied",
		swBlocked:      "authentication method blocked",
		swConditions:   "conditions of use not satisfied",
		swWrongData:    "wrong data",
		swNotFound:     "not found",
		swNoSpace:      "not enough space",
		swWrongP1P2:    "wrong parameters",
		swNoReference:  "reference not found",
		swUnknownINS:   "unknown instruction",
	}[s]
	if text != "" {
		text = ": " + text
	}
	return fmt.Sprintf("card status %04x%s", uint16(s), text)
}

// unknown tells whether s means that the card does not know the command.
func (s status) unknown() bool {
	return s == swUnknownINS || s == swUnknownClass || s == swFunction || s == swNoINSOrMoved
}

// isStatus tells whether err is one of the given status words.
func isStatus(err error, any ...status) bool {
	var s status
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

// unknownCommand tells whether err says that the card lacks the command.
func unknownCommand(err error) bool {
	var s status
	return errors.As(err, &s) && s.unknown()
}

// triesLeft reads the counter out of the status of VERIFY and its like: 63Cx, and
// 630x of the oldest YubiKeys.
func triesLeft(err error) (int, bool) {
	var s status
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
// (ISO/IEC 7816-4 section 5.1.1: command chaining, GET RESPONSE).
func exchange(transmit func([]byte) ([]byte, error), c command) ([]byte, error) {
	data := c.data
	for len(data) > maxCommandChunk {
		if _, err := single(transmit, 0x10, c, data[:maxCommandChunk]); err != nil {
			return nil, err
		}
		data = data[maxCommandChunk:]
	}
	return single(transmit, 0x00, c, data)
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
	defer clear(req) // it may hold a PIN
	var out []byte
	for {
		answer, err := transmit(req)
		if err != nil {
			return nil, err
		}
		if len(answer) < 2 {
			return nil, errShortAnswer
		}
		body, sw := answer[:len(answer)-2], binary.BigEndian.Uint16(answer[len(answer)-2:])
		out = append(out, body...)
		clear(body) // it may be the management key that the card keeps
		switch {
		case sw == 0x9000:
			return out, nil
		case sw>>8 == statusMoreBytes && len(out) <= maxAnswer:
			req = append(req[:0:0], 0, insGetResponse, 0, 0, byte(sw))
		case sw>>8 == statusBadLength && answersData(c.ins) && req[len(req)-1] != byte(sw):
			req[len(req)-1] = byte(sw)
		default:
			return nil, status(sw)
		}
	}
}

// errShortAnswer: a card that is pulled out while it works answers nothing.
var errShortAnswer = errors.New("the card's answer is cut off")

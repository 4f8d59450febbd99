package vcard

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// run lets faults strike, then executes cmd.
func (c *Card) run(cmd command, done <-chan struct{}) ([]byte, uint16) {
	if c.onCommand != nil {
		c.onCommand(cmd.ins)
	}
	if d := c.config.Ways.Delay; d > 0 {
		c.work(d, done)
	}
	if f := c.fault(cmd); f != nil {
		if f.After {
			c.execute(cmd, done)
		}
		if f.Unplug {
			return nil, 0 // the reader side closes the connection on it
		}
		return f.Data, f.SW
	}
	return c.execute(cmd, done)
}

func (c *Card) execute(cmd command, done <-chan struct{}) ([]byte, uint16) {
	fresh := c.fresh
	c.fresh = false
	if cmd.ins == INSSelect {
		return c.selectApp(cmd)
	}
	switch c.app {
	case appPIV:
	case appManagement:
		return c.managementApp(cmd)
	case appOTP:
		return c.otpApp(cmd)
	default:
		return nil, swINSNotSupported
	}
	switch cmd.ins {
	case INSVerify:
		return nil, c.verify(cmd)
	case INSChangeReference:
		return nil, c.changeReference(cmd)
	case INSResetRetry:
		return nil, c.resetRetry(cmd)
	case INSGetData:
		return c.getData(cmd)
	case INSPutData:
		return nil, c.putData(cmd)
	case INSGenerate:
		return c.generate(cmd)
	case INSAuthenticate:
		return c.authenticate(cmd, fresh, done)
	}
	return c.extension(cmd)
}

// extension executes the commands that are Yubico's.
func (c *Card) extension(cmd command) ([]byte, uint16) {
	ways := c.config.Ways
	switch {
	case cmd.ins == INSGetVersion && c.has(Version):
		return ways.version(c.config.Firmware), swOK
	case cmd.ins == INSGetSerial && ways.Serial != nil:
		return ways.Serial, swOK
	case cmd.ins == INSGetSerial && c.has(Serial) && c.since(5, 0):
		return binary.BigEndian.AppendUint32(nil, c.config.Serial), swOK
	case cmd.ins == INSGetMetadata && c.has(Metadata) && c.since(5, 3):
		return c.metadata(cmd)
	case cmd.ins == INSAttest && c.has(Attestation) && c.since(4, 3):
		return c.attest(cmd)
	case cmd.ins == INSImport:
		return nil, c.importKey(cmd)
	case cmd.ins == INSSetManagement && c.has(SetManagement):
		return nil, c.setManagement(cmd)
	case cmd.ins == INSReset && c.has(Reset):
		return nil, c.reset()
	case cmd.ins == INSMoveKey && c.has(Move) && c.since(5, 7):
		return nil, c.deleteKey(cmd)
	}
	return nil, swINSNotSupported
}

// The applications of the card.
const (
	appPIV        = "piv"
	appManagement = "management"
	appOTP        = "otp"
)

func (c *Card) selectApp(cmd command) ([]byte, uint16) {
	aids := []struct {
		app  string
		aid  []byte
		have bool
	}{
		{appPIV, []byte{0xa0, 0, 0, 3, 8, 0, 0, 0x10, 0, 1, 0}, c.has(PIV)},
		{appManagement, []byte{0xa0, 0, 0, 5, 0x27, 0x47, 0x11, 0x17}, c.has(OtherApps)},
		{appOTP, []byte{0xa0, 0, 0, 5, 0x27, 0x20, 1, 1}, c.has(OtherApps)},
	}
	for _, a := range aids {
		if !a.have || len(cmd.data) < 5 || !bytes.HasPrefix(a.aid, cmd.data) {
			continue
		}
		if c.app != a.app { // SP 800-73-4: selecting PIV again changes nothing
			c.leaveApp()
		}
		c.app = a.app
		switch a.app {
		case appPIV:
			return put(0x61, put(0x4f, []byte{0, 0, 0x10, 0, 1, 0}), put(0x79, put(0x4f, []byte{0xa0, 0, 0, 3, 8})),
				c.config.Ways.template()), swOK
		case appManagement:
			v := c.config.Firmware
			return fmt.Appendf(nil, "Virtual mgr - FW version %d.%d.%d", v[0], v[1], v[2]), swOK
		}
		return append(c.config.Firmware[:], 0, 0, 0, 0), swOK
	}
	return nil, swNotFound
}

// managementApp answers READ CONFIG, page 0 (Yubico, "management application").
func (c *Card) managementApp(cmd command) ([]byte, uint16) {
	if cmd.ins != 0x1d || cmd.p1 != 0 || !c.since(5, 0) {
		return nil, swINSNotSupported
	}
	var body []byte
	if c.has(Serial) {
		body = put(0x02, binary.BigEndian.AppendUint32(nil, c.config.Serial))
	}
	body = append(body, put(0x04, []byte{formFactor})...)
	body = append(body, put(0x05, c.config.Firmware[:])...)
	return append([]byte{byte(len(body))}, body...), swOK
}

// otpApp answers the request for the serial.
func (c *Card) otpApp(cmd command) ([]byte, uint16) {
	if cmd.ins != 0x01 || cmd.p1 != 0x10 || !c.has(Serial) {
		return nil, swINSNotSupported
	}
	return binary.BigEndian.AppendUint32(nil, c.config.Serial), swOK
}

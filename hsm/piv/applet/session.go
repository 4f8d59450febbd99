package applet

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Session is one operation's hold on a card: a transaction with the PIV application
// selected. It is used by one goroutine.
type Session struct {
	// ID is what the card is; set once it was identified.
	ID Identity
	// Objects, PINs, Keys and Management are what the application has.
	Objects    Objects
	PINs       PINs
	Keys       Keys
	Management Management

	c *channel
}

// Open selects PIV on a card that is held for the operation. A status that the card
// answers is no error of the reader: see [Refused].
func Open(ctx context.Context, op *Operation, card pcsc.Card) (*Session, error) {
	c := &channel{ctx: ctx, op: op, card: card}
	if err := c.selectApp(aidPIV); err != nil {
		return nil, err
	}
	objects, pins := Objects{c}, PINs{c}
	return &Session{
		Objects: objects, PINs: pins, Keys: Keys{c, objects}, Management: Management{c, objects}, c: c,
	}, nil
}

// Commit begins what must not be left half-way: from here on the caller waits for the
// end. It fails if the caller has left already.
func (s *Session) Commit() error { return s.c.commit() }

// Operation is what the session is for.
func (s *Session) Operation() *Operation { return s.c.op }

// End makes the card forget what was proved to it, by a reset that other programs
// notice if nothing else does, and lets it go.
func (s *Session) End() error { return s.c.card.End(!s.c.forget()) }

// Identify reads who the card is into ID. A refused command is no error: the next best
// is taken.
func (s *Session) Identify() error {
	b, err := s.c.send(command{ins: insGetVersion})
	switch {
	case err == nil && len(b) == 3:
		s.c.version = Version(b)
	case !Refused(err):
		return err
	}
	s.ID = Identity{Version: s.c.version}
	if s.ID.Version.Known() {
		n, err := s.serial()
		switch {
		case err == nil && int32(n) > 0: // a number that others read as negative counts as none
			s.ID.Serial, s.ID.From = strconv.FormatUint(uint64(n), 10), FromSerial
			return nil
		case err != nil && !Refused(err):
			return err
		}
	}
	guid, err := s.Objects.guid()
	if err == nil && guid != "" {
		s.ID.Serial, s.ID.From = guid, FromGUID
		return nil
	} else if !Refused(err) {
		return err
	}
	for _, slot := range Slots() {
		cert, err := s.Objects.Certificate(slot)
		if !Refused(err) {
			return err
		}
		if cert != nil {
			s.ID.Serial, s.ID.From = KeyIdentity(cert), FromKey
			break
		}
	}
	return nil
}

// serial reads Yubico's serial: by PIV since firmware 5, by the OTP
// application before.
func (s *Session) serial() (uint32, error) {
	b, err := s.c.send(command{ins: insGetSerial})
	if StatusOf(err).Unknown() {
		err = s.c.elsewhere(aidOTP, func() (err error) {
			b, err = s.c.send(command{ins: insOTPSerial, p1: 0x10})
			return err
		})
	}
	if err != nil {
		return 0, err
	}
	if len(b) != 4 {
		return 0, errTLV
	}
	return binary.BigEndian.Uint32(b), nil
}

// Christen gives a card that has no serial and no holder identifier a random
// one, before anything is written that it would otherwise be known by. The management
// key must have been proved.
func (s *Session) Christen() error {
	if s.ID.From == FromSerial || s.ID.From == FromGUID {
		return nil
	}
	guid, err := s.Objects.newGUID()
	if err != nil {
		return fmt.Errorf("the card could not be given an identifier: %w", err)
	}
	s.ID.Serial, s.ID.From = guid, FromGUID
	return nil
}

// FormFactor tells the shape of a YubiKey and whether it is a FIPS model, by the
// management application; "" if the card does not tell. What was proved to the card is
// gone after it.
func (s *Session) FormFactor() (name string, fips bool, err error) {
	var code byte
	err = s.c.elsewhere(aidManagement, func() error {
		b, err := s.c.send(command{ins: insReadConfig})
		if err != nil {
			return err
		}
		if len(b) < 1 || int(b[0]) != len(b)-1 {
			return errTLV
		}
		fields, err := parseTLV(b[1:])
		if err != nil {
			return err
		}
		if v, ok := fields.get(0x04); ok && len(v) == 1 {
			code = v[0]
		}
		return nil
	})
	if err != nil && Refused(err) {
		return "", false, nil
	}
	return formFactorName(code), code&0x80 != 0, err
}

// Reset sets PIV to the state of a new card, and reads who that is. It blocks PIN and PUK
// on purpose, which the card wants first, with values that neither can have (nothing but
// filling). A card that does not know RESET is left alone: blocked, it would be lost.
func (s *Session) Reset() error {
	if err := s.c.commit(); err != nil { // a card that is half blocked helps nobody
		return err
	}
	switch _, err := s.c.send(command{ins: insReset}); {
	case err == nil: // PIN and PUK were blocked already
		return s.renewed()
	case StatusOf(err).Unknown():
		return fmt.Errorf("resetting the card: %w: it does not know the command", hsm.ErrUnsupported)
	case !Refused(err):
		return err
	}
	if err := s.PINs.block(); err != nil {
		return err
	}
	if _, err := s.c.send(command{ins: insReset}); err != nil {
		return hint.With(fmt.Errorf("PIN and PUK are blocked, but the card was not reset: %w", err),
			"try the reset again")
	}
	return s.renewed()
}

// renewed reads who the card is after a reset.
func (s *Session) renewed() error {
	s.c.verified, s.c.managed = false, false
	err := s.c.selectApp(aidPIV)
	if err == nil {
		err = s.Identify()
	}
	if err != nil {
		return fmt.Errorf("the card was reset, but cannot be read: %w", err)
	}
	return nil
}

package applet

import (
	"bytes"
	"errors"

	"github.com/kubehsm/kubehsm/hsm"
)

// Answers are what a card says that it can do, asked by commands that change nothing.
type Answers struct {
	// Metadata, Attest, Move and SetManagement tell that it knows the command.
	Metadata, Attest, Delete, SetManagement bool
	// Lacks are the algorithms that it says it makes no keys of.
	Lacks []hsm.Algorithm
	// Fits tells that the version it gives is that of a YubiKey which knows just these
	// commands. Then, and only then, the version stands for what cannot be asked.
	Fits bool
}

// Extended tells whether the card knows anything of Yubico's extensions.
func (a Answers) Extended(v Version) bool { return v.Known() || a.Metadata }

// noSlot is a key reference that no card has (SP 800-73-4 part 1 table 4), and no value of
// Yubico's parameters. ISO/IEC 7816-4 section 7.5.1 reserves it. 00 would not do: it is the
// global PIN, and to GENERATE in ISO/IEC 7816-8 the key that is current.
const noSlot = 0x7f

// Ask asks the card what it can do. We have proved nothing to it, and what is sent names
// no slot and no data: a card that knows a command refuses it for that, also where another
// program has left the management key proved, and one that takes it literally finds nothing
// to do it to. Commands that are Yubico's are sent only to cards that know any.
func (s *Session) Ask() (Answers, error) {
	var a Answers
	_, err := s.c.metadata(refPIN)
	if err != nil && !Refused(err) && !errors.Is(err, errNoReference) {
		return a, err
	}
	a.Metadata = !s.c.mute && !StatusOf(err).Unknown()
	v := s.ID.Version
	if a.Extended(v) {
		for _, q := range []struct {
			knows *bool
			cmd   command
		}{
			{&a.Attest, command{ins: insAttest, p1: noSlot}},
			{&a.Delete, command{ins: insMoveKey, p1: noSlot, p2: noSlot}}, // FF as P1 would delete
			{&a.SetManagement, command{ins: insSetManagement, p1: noSlot, p2: noSlot}},
		} {
			if *q.knows, err = s.c.knows(q.cmd); err != nil {
				return a, err
			}
		}
	}
	a.Fits = v.Known() && a.Metadata == v.Since(5, 3) && a.Attest == v.Since(4, 3) && a.Delete == v.Since(5, 7)
	a.Lacks, err = s.lacks()
	return a, err
}

// lacks finds the algorithms that the card says it makes no keys of: by what SELECT lists,
// else by what GENERATE refuses.
func (s *Session) lacks() ([]hsm.Algorithm, error) {
	var out []hsm.Algorithm
	if listed := listed(s.c.told); listed != nil {
		for _, a := range hsm.Algorithms() {
			if code, _ := AlgorithmCode(a); !bytes.Contains(listed, []byte{code}) {
				out = append(out, a)
			}
		}
		return out, nil
	}
	// A card that looks at the algorithm before it wants the management key refuses one that
	// there is not, and answers another status to one that it has. Most want the key first
	// and tell nothing.
	refuses := func(code byte) (bool, error) {
		_, err := s.c.send(command{ins: insGenerate, p2: noSlot, data: tlv(0xac, tlv(0x80, []byte{code}))})
		if err != nil && !Refused(err) {
			return false, err
		}
		return isStatus(err, swWrongData), nil
	}
	if looks, err := refuses(0xff); err != nil || !looks {
		return nil, err
	}
	for _, a := range hsm.Algorithms() {
		code, _ := AlgorithmCode(a)
		no, err := refuses(code)
		if err != nil {
			return nil, err
		}
		if no {
			out = append(out, a)
		}
	}
	if len(out) == len(hsm.Algorithms()) {
		return nil, nil // A refusal of the slot, or of everything, tells nothing.
	}
	return out, nil
}

// listed reads the algorithms out of the application property template (SP 800-73-4 part 2
// section 3.1.1, tag AC; one object or several). It is nil where none is of a key pair:
// cards with secure messaging list that alone.
func listed(template []byte) []byte {
	inner, err := unwrap(template, 0x61)
	if err != nil {
		return nil
	}
	fields, err := parseTLV(inner)
	if err != nil {
		return nil
	}
	var all []byte
	for _, f := range fields {
		if f.tag != 0xac {
			continue
		}
		ids, err := parseTLV(f.value)
		if err != nil {
			return nil
		}
		for _, id := range ids {
			if id.tag == 0x80 && len(id.value) == 1 {
				all = append(all, id.value[0])
			}
		}
	}
	for _, a := range hsm.Algorithms() {
		if code, _ := AlgorithmCode(a); bytes.Contains(all, []byte{code}) {
			return all
		}
	}
	return nil
}

//go:build linux && cgo

package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// token is the token of an episode.
type token interface {
	// begin makes it ready for the world's lab.
	begin(w *world) error
	// pin is its PIN, and enrollArgs what names it and the place of the key for the
	// enrollment number n.
	pin() string
	enrollArgs(n int) []string
	// places is how many enrollments it has place for.
	places() int
	// pull takes it out as a hand does, without waiting, and put puts it back.
	pull() error
	put() error
	// healthy tells what is wrong: a try of the PIN was spent, or it was left unlocked
	// though no agent runs.
	healthy(agentRuns bool) error
	// keys are how many it holds; exact is false where that is not known from outside.
	keys() (int, error)
}

// soft is a token of SoftHSM2.
type soft struct {
	w      *world
	folder string
}

func (s *soft) begin(w *world) error {
	s.w = w
	found, err := filepath.Glob(filepath.Join(w.Soft.Tokens, "*", "token.object"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d tokens: %w", len(found), err)
	}
	s.folder = filepath.Dir(found[0])
	return s.healthy(false)
}

func (s *soft) pin() string             { return lab.PIN }
func (s *soft) enrollArgs(int) []string { return []string{"--token", "pkcs11:token=" + lab.Token} }
func (s *soft) places() int             { return 4 }

// pull takes the token's folder away, and put brings it back. SoftHSM2 does not report the
// removal: its sessions stay open, without any objects, until the library is initialized again.
func (s *soft) pull() error { return os.Rename(s.folder, s.away()) }

// put may come again after the token is back.
func (s *soft) put() error {
	err := os.Rename(s.away(), s.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *soft) away() string { return filepath.Join(s.w.Dir, "pulled") }

// healthy: SoftHSM2 counts no tries, but until the right PIN comes it notes that a
// wrong one was there (CKF_USER_PIN_COUNT_LOW), in the token's flags
// (CKA_OS_TOKENFLAGS, a number).
func (s *soft) healthy(bool) error {
	b, err := os.ReadFile(filepath.Join(s.folder, "token.object"))
	if err != nil {
		return err
	}
	const osTokenFlags, number, pinCountLow = 0x8000534B, 2, 0x10000
	head := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, osTokenFlags), number)
	at := bytes.Index(b, head)
	switch {
	case at < 0 || at+len(head)+8 > len(b):
		return errors.New("the token's flags are not where they were")
	case binary.BigEndian.Uint64(b[at+len(head):])&pinCountLow != 0:
		return errors.New("a PIN was tried in vain")
	}
	return nil
}

// keys counts the private keys, by the class that each object's file begins with
// (CKA_CLASS, a number, CKO_PRIVATE_KEY).
func (s *soft) keys() (n int, err error) {
	found, err := filepath.Glob(filepath.Join(s.folder, "*.object"))
	var private []byte
	for _, v := range []uint64{0, 2, 3} {
		private = binary.BigEndian.AppendUint64(private, v)
	}
	for _, file := range found {
		b, rerr := os.ReadFile(file)
		err = errors.Join(err, rerr)
		if len(b) > 8 && bytes.Contains(b[8:], private) {
			n++
		}
	}
	return n, err
}

// What the card's owner knows; a PIV PIN has at most 8 digits.
const cardPIN = "73916402"

// cardSlots are where the enrollments' keys go.
var cardSlots = []string{"9a", "9c", "82", "83", "84"}

// card is a PIV card.
type card struct {
	card    *vcard.Card
	readers *vcard.Lab
	reader  int
	serial  uint32
}

func newCard(readers *vcard.Lab, reader int, serial uint32) *card {
	c := &card{card: vcard.New(vcard.Config{Serial: serial}), readers: readers, reader: reader, serial: serial}
	c.card.SetPIN(cardPIN)
	return c
}

func (c *card) begin(w *world) error {
	w.closed = append(w.closed, func() error { return c.readers.Pull(c.reader) })
	return c.readers.Put(c.reader, c.card)
}

func (c *card) pin() string { return cardPIN }

func (c *card) enrollArgs(n int) []string {
	return []string{"--token", fmt.Sprintf("piv:serial=%d", c.serial), "--slot", cardSlots[n],
		"--accept-risk", "default-secrets"}
}

func (c *card) places() int { return len(cardSlots) }
func (c *card) pull() error { c.readers.Yank(c.reader); return nil }
func (c *card) put() error  { return c.readers.Put(c.reader, c.card) }

func (c *card) healthy(agentRuns bool) error {
	pin, puk := c.card.PINRetries()
	switch {
	case pin != 3 || puk != 3:
		return fmt.Errorf("%d tries of the PIN and %d of the PUK are left", pin, puk)
	case !agentRuns && (c.card.Verified() || c.card.Managed()):
		return errors.New("no agent runs, and the card has the PIN verified or the management key proved")
	}
	for _, e := range c.card.Log() {
		if e.INS == 0x20 && e.Length > 0 && e.SW != 0x9000 {
			return fmt.Errorf("a VERIFY was answered %04x", e.SW)
		}
	}
	return nil
}

func (c *card) keys() (n int, err error) {
	for _, slot := range []byte{0x9a, 0x9c, 0x82, 0x83, 0x84} {
		if c.card.Public(slot) != nil {
			n++
		}
	}
	return n, nil
}

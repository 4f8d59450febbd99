package vcard

import "time"

// Ways are how a card differs from the one that NIST SP 800-73-4 and Yubico's documents
// describe. The zero value is no difference. What a card lacks altogether is in
// [Config.Without], and [Personalities] has the kinds of cards that are known for them.
type Ways struct {
	// Claims is the answer to GET VERSION, if it is another than the firmware by which the
	// card behaves.
	Claims [3]byte
	// Serial is the answer to GET SERIAL as it is, whatever it means.
	Serial []byte
	// Historical are the historical bytes of the answer to reset.
	Historical string
	// Algorithms are those that it makes keys of; nil: as the firmware does.
	Algorithms []byte
	// Lists has SELECT list the algorithms (tag AC), SecureMessaging that one alone.
	Lists, SecureMessaging bool
	// LooksFirst has GENERATE refuse an algorithm before it asks for the management key.
	LooksFirst bool
	// WrongWith is the algorithm whose signatures do not verify.
	WrongWith byte
	// AttestsText has ATTEST answer what is no certificate.
	AttestsText bool
	// Tries are those of PIN and PUK, and Management the cipher of the management key; 0:
	// as the firmware has them.
	Tries      int
	Management byte
	// BlockedAsZero has a PIN without tries answer 63C0, and not 6983.
	BlockedAsZero bool
	// KeptAs are the status words of PUT DATA to objects that are kept all the same.
	KeptAs map[uint32]uint16
	// NewCHUID gives the card another CHUID with each reset.
	NewCHUID bool
	// NoChaining refuses command chaining; long commands come as extended ones.
	NoChaining bool
	// Portion bounds the bytes of an answer before GET RESPONSE; 0: none.
	Portion int
	// ExactLe has GET RESPONSE refuse another length than the one there is (6Cxx).
	ExactLe bool
	// Delay is how long each command takes.
	Delay time.Duration
}

// version is the answer to GET VERSION.
func (w Ways) version(firmware [3]byte) []byte {
	if w.Claims != ([3]byte{}) {
		return w.Claims[:]
	}
	return firmware[:]
}

// template is tag AC of the answer to SELECT (SP 800-73-4 part 2 section 3.1.1 table 5), or
// nothing.
func (w Ways) template() []byte {
	listed := []byte{0x27} // cipher suite 2: secure messaging with P-256
	switch {
	case w.Lists:
		listed = append([]byte{algTDES, algAES128, algAES192, algAES256}, w.Algorithms...)
	case !w.SecureMessaging:
		return nil
	}
	var ids []byte
	for _, alg := range listed {
		ids = append(ids, put(0x80, []byte{alg})...)
	}
	return put(0xac, append(ids, put(0x06, []byte{0})...))
}

// work takes as long as d, unless the card is pulled out. The card's state can be looked at
// meanwhile.
func (c *Card) work(d time.Duration, done <-chan struct{}) {
	c.mu.Unlock()
	defer c.mu.Lock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
	}
}

// SetDelay replaces how long each command takes.
func (c *Card) SetDelay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config.Ways.Delay = d
}

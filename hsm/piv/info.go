package piv

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv/applet"
	"github.com/kubehsm/kubehsm/hsm/piv/pcsc"
)

// describe reads the token's description. What the card can do is asked once as long as
// it stays in its reader.
func (c *cards) describe(s *applet.Session, r pcsc.Reader) (hsm.TokenInfo, error) {
	info := hsm.TokenInfo{
		Scheme: hsm.SchemePIV, Serial: s.ID.Serial, Firmware: s.ID.Version.String(), Reader: r.Name,
		Initialized: true,
	}
	info.Manufacturer, info.Model = product(r, s.ID.Version)
	can, err := c.can(s, r)
	if err != nil {
		return info, err
	}
	info.Can = can
	info.PIN, err = s.PINs.State()
	return info, err
}

// insertion is one stay of a card in a reader.
type insertion struct {
	reader, atr string
	events      uint32
	id          applet.Identity
}

// can tells what the card can do.
func (c *cards) can(s *applet.Session, r pcsc.Reader) (hsm.Abilities, error) {
	at := insertion{r.Name, string(r.ATR), r.Events, s.ID}
	c.mu.Lock()
	known, ok := c.known[at]
	c.mu.Unlock()
	if ok {
		return known, nil
	}
	answers, err := s.Ask()
	if err != nil {
		return hsm.Abilities{}, err
	}
	can := abilities(s.ID.Version, answers)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	c.known[at] = can
	return can, nil
}

// maxKnown bounds the stays that are remembered.
const maxKnown = 64

// abilities are what a card can do, by its answers. Its version counts only where they
// fit it, and then for what cannot be asked: policies and algorithms.
func abilities(v applet.Version, a applet.Answers) hsm.Abilities {
	old := func(major, minor byte) bool { return a.Fits && !v.Since(major, minor) }
	return hsm.Abilities{
		Generate: true, Store: true, Details: true, ChangePIN: true,
		ManagementKey: a.SetManagement, Reset: v.Known(),
		Policies: a.Extended(v) && !old(4, 0), Attest: a.Attest, Delete: a.Delete,
		Lack: lack(v, a, old(5, 7)),
	}
}

// lack says which algorithms the card lacks.
func lack(v applet.Version, a applet.Answers, old bool) hsm.Lack {
	lacks, why := a.Lacks, "the card says that it makes no such keys"
	if len(lacks) == 0 && old {
		lacks, why = []hsm.Algorithm{hsm.RSA3072, hsm.RSA4096, hsm.Ed25519}, "needs firmware 5.7 or newer"
		if !v.Since(4, 0) {
			lacks = append(lacks, hsm.ECDSAP384)
		}
	}
	if weakRSA(v) {
		lacks = []hsm.Algorithm{hsm.RSA2048, hsm.RSA3072, hsm.RSA4096, hsm.Ed25519}
		why = "RSA keys made by firmware " + v.String() + " are weak, and it supports no newer types"
	}
	words := make([]string, len(lacks))
	for i, alg := range lacks {
		words[i] = string(alg)
	}
	if len(words) == 0 {
		return hsm.Lack{}
	}
	return hsm.Lack{Algorithms: strings.Join(words, " "), Why: why}
}

// weakRSA tells of firmware whose RSA keys can be factored (CVE-2017-15361, Yubico advisory
// YSA-2017-01: 4.2.6 to 4.3.4). It counts whatever else the card answers.
func weakRSA(v applet.Version) bool {
	return v.Since(4, 2) && !v.Since(4, 3) || v[0] == 4 && v[1] == 3 && v[2] < 5
}

// product tells maker and model by the reader's name, as a token with a plug
// is a reader of its own, and by what the card says on reset.
func product(r pcsc.Reader, v applet.Version) (manufacturer, model string) {
	said := strings.ToLower(r.Name + " " + string(r.ATR))
	switch {
	case strings.Contains(said, "yubi"):
		if v.Known() {
			return "Yubico", fmt.Sprintf("YubiKey %d", v[0])
		}
		return "Yubico", "YubiKey"
	case strings.Contains(said, "canokey"):
		return "CanoKeys", "CanoKey"
	case strings.Contains(said, "nitrokey"):
		return "Nitrokey", "Nitrokey"
	}
	return "", "PIV card"
}

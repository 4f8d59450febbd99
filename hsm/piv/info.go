package piv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
)

// PIN lengths in bytes (SP 800-73-4 part 2 section 2.4.3).
const (
	minPIN = 6
	maxPIN = 8
)

// describe reads the token's description. The session must be identified.
func (s *session) describe(r reader) (hsm.TokenInfo, error) {
	info := hsm.TokenInfo{
		Scheme: hsm.SchemePIV, Serial: s.id.serial, Firmware: s.id.version.String(), Reader: r.name, Initialized: true,
	}
	info.Manufacturer, info.Model = product(r, s.id.version)
	info.Can = abilities(s.id.version)
	var err error
	info.PIN, err = s.pinState()
	return info, err
}

// abilities are what a card can do: all that does not need firmware that the card
// is known to lack.
func abilities(v version) hsm.Abilities {
	old := func(major, minor byte) bool { return v.known() && !v.since(major, minor) }
	can := hsm.Abilities{
		Generate: true, Store: true, DeleteCertificate: true, Details: true, ChangePIN: true, SetRetries: true, ManagementKey: true,
		Reset: v.known(), Policies: !old(4, 0), Attest: !old(4, 3), Delete: !old(5, 7), Move: !old(5, 7),
	}
	if old(5, 7) {
		can.Lack = hsm.Lack{
			Algorithms: strings.Join([]string{string(hsm.RSA3072), string(hsm.RSA4096), string(hsm.Ed25519)}, " "),
			Why:        "needs firmware 5.7 or newer",
		}
	}
	return can
}

// product tells maker and model by the reader's name, as a token with a plug
// is a reader of its own, and by what the card says on reset.
func product(r reader, v version) (manufacturer, model string) {
	said := strings.ToLower(r.name + " " + string(r.atr))
	switch {
	case strings.Contains(said, "yubi"):
		if v.known() {
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

// pinState reads the PIN's counter without spending a try.
func (s *session) pinState() (hsm.PINState, error) {
	state := hsm.PINState{Retries: -1, MinLen: minPIN, MaxLen: maxPIN}
	m, err := s.metadata(refPIN)
	switch {
	case err == nil && m.hasTries:
		state.Retries, state.Default = m.left, m.isDefault
	case err != nil && !refused(err) && !errors.Is(err, errNoReference):
		return state, err
	default:
		if state.Retries, err = s.pinTries(); err != nil {
			return state, err
		}
	}
	state.Locked = state.Retries == 0
	state.Final = state.Retries == 1
	state.Low = state.Retries >= 0 && state.Retries < 3 && (!m.hasTries || m.left < m.total)
	return state, nil
}

// pinTries asks by an empty VERIFY. -1: the PIN is verified, and the card does not say.
func (s *session) pinTries() (int, error) {
	_, err := s.send(command{ins: insVerify, p2: refPIN})
	if err == nil {
		return -1, nil
	}
	if n, ok := triesLeft(err); ok {
		return n, nil
	}
	if refused(err) {
		return -1, nil
	}
	return -1, err
}

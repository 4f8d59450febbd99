package piv

import (
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
)

// PIN lengths in bytes (SP 800-73-4 part 2 section 2.4.3).
const (
	minPIN = 6
	maxPIN = 8
)

// describe reads the token's description. The session must be identified.
func (s *session) describe(reader string) (hsm.TokenInfo, error) {
	info := hsm.TokenInfo{
		Scheme: hsm.SchemePIV, Serial: s.id.serial, Firmware: s.id.version.String(), Reader: reader, Initialized: true,
		Model: model(s.id, reader), Manufacturer: manufacturer(s.id, reader),
	}
	var err error
	info.PIN, err = s.pinState()
	return info, err
}

// model names the kind of card. Only Yubico's cards tell a version and a serial.
func model(id identity, reader string) string {
	if !yubico(id, reader) {
		return "PIV card"
	}
	if id.version.known() {
		return "YubiKey " + string('0'+id.version[0])
	}
	return "YubiKey"
}

func manufacturer(id identity, reader string) string {
	if yubico(id, reader) {
		return "Yubico"
	}
	return ""
}

func yubico(id identity, reader string) bool {
	return strings.Contains(strings.ToLower(reader), "yubi") || id.from == fromSerial && id.version.since(4, 0)
}

// pinState reads the PIN's counter without spending a try.
func (s *session) pinState() (hsm.PINState, error) {
	state := hsm.PINState{Retries: -1, MinLen: minPIN, MaxLen: maxPIN}
	m, err := s.metadata(refPIN)
	switch {
	case err == nil && m.hasTries:
		state.Retries, state.Default = m.left, m.isDefault
	case err != nil && !refused(err) && err != errNoReference:
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

package present

import (
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
)

// PINWords is the state of a token's PIN in a few words, to stand after "PIN". d may
// be nil.
func PINWords(t hsm.TokenInfo, d *hsm.Details) string {
	s := t.PIN
	tries := hsm.Tries{Left: s.Retries, Default: s.Default}
	if d != nil && d.PIN != nil {
		tries = *d.PIN
		tries.Default = tries.Default || s.Default
	}
	switch {
	case !t.Initialized:
		return "not initialized"
	case s.NotSet:
		return "not set"
	case s.NotNeeded:
		return "not needed"
	case s.Blocked() || tries.Left == 0:
		return blocked
	}
	var parts []string
	if tries.Default {
		parts = append(parts, "default")
	}
	if s.PINPad {
		parts = append(parts, "typed on the reader")
	}
	switch {
	case tries.Left > 0:
		parts = append(parts, triesLeft(tries))
	case s.Final:
		parts = append(parts, hsm.TriesLeft(1))
	case s.Low:
		parts = append(parts, "few tries left")
	case len(parts) == 0:
		return "set"
	}
	return strings.Join(parts, ", ")
}

// blocked is the state of a PIN or PUK without tries left.
const blocked = "blocked"

// triesOf is the counter of a PUK: "default, 2 of 3 tries left". t may be nil.
func triesOf(t *hsm.Tries) string {
	switch {
	case t == nil:
		return ""
	case t.Left == 0:
		return blocked
	case t.Default:
		return "default, " + triesLeft(*t)
	}
	return triesLeft(*t)
}

func triesLeft(t hsm.Tries) string {
	if t.Total > 0 {
		return fmt.Sprintf("%d of %d tries left", t.Left, t.Total)
	}
	return hsm.TriesLeft(t.Left)
}

// managementKey describes a PIV management key: "aes-192, default".
func managementKey(m hsm.ManagementKeyState) string {
	var parts []string
	if m.Algorithm != "" {
		parts = append(parts, string(m.Algorithm))
	}
	if m.Default {
		parts = append(parts, "default")
	}
	if m.Protected {
		parts = append(parts, "kept on the card under the PIN")
	}
	if m.Touch == hsm.TouchAlways || m.Touch == hsm.TouchCached {
		parts = append(parts, "touch "+m.Touch.String())
	}
	return strings.Join(parts, ", ")
}

// PIN is the state of a token's PIN, to stand on its own. d may be nil.
func PIN(t hsm.TokenInfo, d *hsm.Details) (string, Level) {
	f := pinFact(t, d)
	if t.Initialized {
		f.Value = "PIN " + f.Value
	}
	return f.Value, f.Level
}

// Secrets are the states of what a token asks for. d may be nil.
func Secrets(t hsm.TokenInfo, d *hsm.Details) []Fact {
	facts := []Fact{pinFact(t, d)}
	if d == nil {
		return facts
	}
	if d.PUK != nil {
		puk := Fact{Name: "PUK", Value: triesOf(d.PUK)}
		switch {
		case d.PUK.Left == 0:
			puk.Level = Bad
		case d.PUK.Default:
			puk.Level, puk.Note = Warn, "the default PUK is in force; `kubehsm token puk change` sets your own"
		}
		facts = append(facts, puk)
	}
	key := Fact{Name: "Management key", Value: managementKey(d.ManagementKey)}
	if d.ManagementKey.Default {
		key.Level = Warn
		key.Note = "the default management key is in force; `kubehsm token management-key set --protect` replaces it"
	}
	return append(facts, key)
}

func pinFact(t hsm.TokenInfo, d *hsm.Details) Fact {
	f := Fact{Name: "PIN", Value: PINWords(t, d)}
	isDefault := t.PIN.Default || d != nil && d.PIN != nil && d.PIN.Default
	if isDefault {
		f.Note = "the default PIN is in force; `kubehsm token pin change` sets your own"
	}
	switch s := t.PIN; {
	case !t.Initialized, s.NotNeeded:
	case s.Blocked(), s.NotSet:
		f.Level = Bad
	case s.Final, s.Low, s.Retries == 1, isDefault:
		f.Level = Warn
	}
	return f
}

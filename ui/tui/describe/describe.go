// Package describe puts tokens, slots, policies and certificates into the words
// that screens show. Everything it returns is clean text.
package describe

import (
	"crypto/x509"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/theme"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// Level says how good or bad a state is.
type Level int

// The levels.
const (
	Good Level = iota
	Quiet
	Warn
	Bad
)

// Style is how a level looks.
func Style(t theme.Theme, l Level) theme.Style {
	switch l {
	case Good:
		return t.Good
	case Warn:
		return t.Warn
	case Bad:
		return t.Bad
	}
	return t.Muted
}

// PIN puts a token's PIN state into a few words. d may be nil.
func PIN(t hsm.TokenInfo, d *hsm.Details) (string, Level) {
	words := flow.PINWords(t, d)
	if t.Initialized {
		words = "PIN " + words
	}
	switch s := t.PIN; {
	case !t.Initialized, s.NotNeeded:
		return words, Quiet
	case s.Blocked(), s.NotSet:
		return words, Bad
	case s.Final, s.Low, s.Retries == 1, s.Default:
		return words, Warn
	}
	return words, Quiet
}

// Unusable says why no key on the token can be used or made, "" if one can.
func Unusable(t hsm.TokenInfo) string {
	switch {
	case !t.Initialized:
		return "the token is not initialised"
	case t.PIN.Blocked():
		return "its PIN is blocked"
	case t.PIN.NotSet:
		return "it has no PIN yet"
	}
	return ""
}

// Kind says what a token is, in a word or two.
func Kind(t hsm.TokenInfo) string {
	model := text.Clean(strings.TrimSpace(t.Model))
	if t.Scheme == hsm.SchemePIV {
		if t.Label == "" {
			return "PIV" // the name says the model
		}
		return strings.TrimSpace("PIV " + strings.TrimPrefix(model, "PIV"))
	}
	if model == "" {
		return "PKCS#11"
	}
	return model
}

// Token is a token's name.
func Token(t hsm.TokenInfo) string {
	if n := text.Clean(strings.TrimSpace(t.Name())); n != "" {
		return n
	}
	return "(no name)"
}

// Slot is a slot's name: "9a", or for PKCS#11 the label, else the id.
func Slot(s hsm.Slot) string {
	if s.URI.Scheme == hsm.SchemePIV || s.Label == "" {
		return ID(s)
	}
	return text.Clean(s.Label)
}

// ID is a slot's id, shortened to 8 characters.
func ID(s hsm.Slot) string {
	id := text.Clean(s.ID)
	if len(id) > 9 {
		return id[:8] + "…"
	}
	if id == "" {
		return "-"
	}
	return id
}

// Purpose says what a PIV slot is meant for (SP 800-73-4 part 1, section 3.2).
func Purpose(slot string) string {
	switch slot {
	case "9a":
		return "authentication"
	case "9c":
		return "signature: the PIN is asked every time"
	case "9d":
		return "key management"
	case "9e":
		return "card authentication: no PIN is asked"
	}
	return "retired key"
}

// Certificate is the name in a certificate: its common name, else its subject.
func Certificate(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	if cn := strings.TrimSpace(c.Subject.CommonName); cn != "" {
		return text.Clean(cn)
	}
	if s := c.Subject.String(); s != "" {
		return text.Clean(s)
	}
	return "serial " + c.SerialNumber.Text(16)
}

// Expiry says how long a certificate is still good, and how much of its life
// is left, 0 to 1.
func Expiry(c *x509.Certificate, now time.Time) (words string, left float64, l Level) {
	if c == nil {
		return "", 0, Quiet
	}
	life := c.NotAfter.Sub(c.NotBefore)
	rest := c.NotAfter.Sub(now)
	switch {
	case now.Before(c.NotBefore):
		return "not yet valid", 1, Warn
	case rest <= 0:
		return "expired", 0, Bad
	}
	left = min(float64(rest)/float64(max(life, 1)), 1)
	l = Good
	if left < 0.2 {
		l = Warn
	}
	return "in " + widget.Span(rest), left, l
}

// PINPolicy explains a PIN policy in a clause.
func PINPolicy(p hsm.PINPolicy) string {
	switch p {
	case hsm.PINNever:
		return "never asked: whoever holds the token can use the key"
	case hsm.PINOnce:
		return "asked once, until the token is locked or unplugged"
	case hsm.PINAlways:
		return "asked for every single signature"
	}
	return "the token's own choice, mostly once"
}

// TouchPolicy explains a touch policy in a clause.
func TouchPolicy(p hsm.TouchPolicy) string {
	switch p {
	case hsm.TouchNever:
		return "no touch: programs on this machine can sign unseen"
	case hsm.TouchCached:
		return "one touch counts for 15 seconds"
	case hsm.TouchAlways:
		return "a touch for every single signature"
	}
	return "the token's own choice, mostly never"
}

// Attestation says what a token states of a key, and what that is worth, in lines.
func Attestation(a flow.Attestation) []string {
	var verdict string
	switch {
	case a.Err != nil:
		verdict = "It is NOT verified: " + ui.Message(a.Err) + ". Whoever made this statement can claim anything."
	case a.Checked:
		verdict = "It is verified to " + text.Clean(a.Statement.Root) + ", and is for this very key: the key was made on the device and cannot leave it."
	default:
		verdict = "It is verified to " + text.Clean(a.Statement.Root) + ". Which key it is for was not compared."
	}
	if a.Statement == (attest.Statement{}) { // there was nothing that could be read
		return []string{verdict}
	}
	return []string{text.Clean(a.Statement.String()), "", verdict}
}

// Problem says in one line what could not be read and why; the file is named
// once, without its folder.
func Problem(p hsm.Problem) string {
	source := text.Clean(p.Source)
	short := source
	if strings.HasPrefix(source, "/") {
		short = path.Base(source)
	}
	msg := strings.ReplaceAll(ui.Message(p.Err), "\n", " ")
	msg = strings.TrimPrefix(msg, "list the tokens of "+source+": ")
	msg = strings.TrimPrefix(msg, hsm.ErrModule.Error()+": the library "+source+" ")
	return short + ": " + strings.ReplaceAll(msg, source, short)
}

// Algorithm explains an algorithm in a clause.
func Algorithm(a hsm.Algorithm) string {
	switch a {
	case hsm.ECDSAP256:
		return "every token has it; fast"
	case hsm.ECDSAP384:
		return "stronger, a little slower"
	case hsm.RSA2048:
		return "no curves needed; slow to make"
	case hsm.RSA3072:
		return "few tokens; YubiKey from 5.7"
	case hsm.RSA4096:
		return "few tokens, slow; YubiKey 5.7"
	case hsm.Ed25519:
		return "few tokens; YubiKey from 5.7"
	}
	return ""
}

// Lacks says why a token cannot make keys of an algorithm, "" if it can or
// nothing is known.
func Lacks(t hsm.TokenInfo, a hsm.Algorithm) string {
	if t.Scheme == hsm.SchemePIV && newerPIV(a) && olderThan57(t.Firmware) {
		return "needs firmware 5.7 or newer"
	}
	return ""
}

// newerPIV tells whether YubiKeys learnt a with firmware 5.7.
func newerPIV(a hsm.Algorithm) bool {
	return a == hsm.RSA3072 || a == hsm.RSA4096 || a == hsm.Ed25519
}

// olderThan57 tells whether a YubiKey's firmware is known to be older than 5.7.
func olderThan57(firmware string) bool {
	parts := strings.SplitN(firmware, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major < 5 || major == 5 && minor < 7)
}

package present

import (
	"crypto"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Slot is a slot's name: "9a", or for PKCS#11 the label, else the id.
func Slot(s hsm.Slot) string {
	if s.URI.Kind().HasSlots() || s.Label == "" {
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

// SlotRow is a slot in a list: a cell for each column, clean.
type SlotRow struct {
	ID, Label   string
	Key         Fact // the key's algorithm
	Origin      string
	PIN, Touch  string // the policies, "-" where the token does not tell
	Certificate Fact   // name in the certificate
	Expires     Fact
	// Left is the share of the certificate's life that is left, 0 to 1.
	Left float64
	// Problem is why the slot could not be read, "" if it could.
	Problem string
	// Empty has neither key nor certificate.
	Empty bool
}

// RowOf puts a slot into a row.
func RowOf(s hsm.Slot, now time.Time) SlotRow {
	r := SlotRow{ID: text.Clean(s.ID), Label: text.Clean(s.Label), Problem: text.Clean(s.Problem),
		Empty: s.Key == nil && s.Certificate == nil && half(s) == ""}
	if r.Empty {
		return r
	}
	r.Key.Value, r.Certificate.Value = "no key", "-"
	switch s.Half {
	case hsm.HalfPrivate:
		r.Key = Fact{Value: "private half", Level: Warn}
	case hsm.HalfPublic:
		r.Key = Fact{Value: "public half", Level: Warn}
	case hsm.HalfApart:
		r.Key = Fact{Value: "halves apart", Level: Warn}
	}
	if k := s.Key; k != nil {
		r.Key.Value, r.Origin = text.Clean(string(k.Algorithm)), text.Clean(string(k.Origin))
		r.PIN, r.Touch = k.PIN.String(), k.Touch.String()
		if k.Extractable {
			r.Key.Level = Warn
		}
		if k.PIN == hsm.PINDefault {
			r.PIN = "-"
		}
		if k.Touch == hsm.TouchDefault {
			r.Touch = "-"
		}
	}
	if s.Certificate != nil {
		r.Certificate.Value = Certificate(s.Certificate)
		if s.Key != nil && !s.CertificateMatches() {
			r.Certificate = Fact{Value: "other key: " + r.Certificate.Value, Level: Warn}
		}
		r.Expires.Value, r.Left, r.Expires.Level = Expiry(s.Certificate, now)
	}
	return r
}

// otherKey is said where a slot's certificate and key do not belong together.
const otherKey = "the certificate is for another key than the one in this slot"

// SlotFacts are what is known of a slot, the most telling first.
func SlotFacts(s hsm.Slot, now time.Time) []Fact {
	var facts []Fact
	add := func(name, value string, l Level) { facts = append(facts, Fact{Name: name, Value: value, Level: l}) }
	kind := s.URI.Kind()
	add("Problem", text.Clean(s.Problem), Warn)
	if kind.HasSlots() {
		add("Meant for", Purpose(s.ID), Quiet)
	} else {
		add("Label", text.Clean(s.Label), Quiet)
	}
	if k := s.Key; k != nil {
		leaves := "cannot leave it"
		if k.Extractable {
			leaves = ""
		}
		add("Key", join(text.Clean(string(k.Algorithm)), origin(k.Origin), leaves), Quiet)
		if k.Extractable {
			add("Warning", "the private key may leave the token", Warn)
		}
		add("PIN", policy(k.PIN, hsm.PINDefault, PINPolicy), Quiet)
		if kind.Policies {
			add("Touch", policy(k.Touch, hsm.TouchDefault, TouchPolicy), Quiet)
		}
	}
	if s.Certificate != nil {
		facts = append(facts, holder(s.Certificate), issuer(s.Certificate), until(s.Certificate, now))
		if s.Key != nil && !s.CertificateMatches() {
			add("Mind", otherKey, Warn)
		}
		if n := len(s.Older); n > 0 {
			add("Besides", Count(n, "older certificate")+" for this key", Warn)
		}
	}
	hash, words := "", ""
	if s.Key != nil && s.Key.Public != nil {
		hash, words = fingerprint(s.Key.Public)
	}
	add("Fingerprint", hash, Quiet)
	add("URI", text.Clean(s.URI.String()), Quiet)
	add("In words", words, Quiet)
	return facts
}

// policy is a policy with what it means. That of a token which does not tell it has no
// name: "default" is what PINs are that everybody knows.
func policy[P interface {
	comparable
	String() string
}](p, untold P, means func(P) string) string {
	if p == untold {
		return means(p)
	}
	return join(p.String(), means(p))
}

// KeySections are a key and all that the certificate beside it says.
func KeySections(s hsm.Slot, now time.Time) []Section {
	alone := s
	alone.Certificate = nil
	sections := []Section{{Facts: SlotFacts(alone, now)}}
	if s.Certificate == nil {
		return sections
	}
	beside := Section{Facts: CertificateFacts(s.Certificate, now)}
	if s.Key != nil && !s.CertificateMatches() {
		beside.Lines = []Line{{Words: otherKey, Level: Warn}}
	}
	return append(sections, beside)
}

// fingerprint is that of a key, in hex and in words to be read out; none for a key of a
// kind that is not known.
func fingerprint(public crypto.PublicKey) (hash, words string) {
	hash, err := hsm.Fingerprint(public)
	if err != nil {
		return "", ""
	}
	spoken, err := csr.FingerprintWords(hash)
	if err != nil {
		return hash, ""
	}
	return hash, strings.Join(spoken, " ")
}

func origin(o hsm.Origin) string {
	switch o {
	case hsm.Generated:
		return "generated on the token"
	case hsm.Imported:
		return "imported"
	}
	return ""
}

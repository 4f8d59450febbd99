package present

import (
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// TokenFacts is what is known of a token.
func TokenFacts(i hsm.TokenInfo) []Fact {
	facts := []Fact{
		{Name: "Serial", Value: text.Clean(i.Serial)},
		{Name: "Kind", Value: join(Kind(i), text.Clean(i.Manufacturer))},
		{Name: "PIN", Value: PINWords(i, nil)},
		{Name: "URI", Value: text.Clean(i.URI().String())},
		{Name: "Firmware", Value: text.Clean(i.Firmware)},
		{Name: "Reader", Value: text.Clean(strings.TrimSpace(i.Reader))},
	}
	if i.Module != nil {
		facts = append(facts, Fact{Name: "Module", Value: text.Clean(i.Module.Path)})
	}
	return facts
}

// SlotFacts is what is known of a slot, the most telling first.
func SlotFacts(s hsm.Slot, now time.Time) []Fact {
	var facts []Fact
	add := func(name, value string) { facts = append(facts, Fact{Name: name, Value: value}) }
	add("Problem", text.Clean(s.Problem))
	if s.URI.Scheme == hsm.SchemePIV {
		add("Meant for", Purpose(s.ID))
	}
	if k := s.Key; k != nil {
		add("Key", join(text.Clean(string(k.Algorithm)), origin(k.Origin)))
		if k.Extractable {
			add("Warning", "the private key may leave the token")
		}
		add("PIN", join(k.PIN.String(), PINPolicy(k.PIN)))
		if s.URI.Scheme == hsm.SchemePIV {
			add("Touch", join(k.Touch.String(), TouchPolicy(k.Touch)))
		}
	}
	if c := s.Certificate; c != nil {
		words, _, _ := Expiry(c, now)
		add("Subject", text.Clean(c.Subject.String()))
		add("Issuer", text.Clean(c.Issuer.String()))
		add("Expires", c.NotAfter.UTC().Format("2006-01-02 15:04 MST")+" ("+words+")")
	}
	if s.Key != nil && s.Key.Public != nil {
		if fp, err := hsm.Fingerprint(s.Key.Public); err == nil {
			add("SHA-256", fp)
		}
	}
	add("URI", text.Clean(s.URI.String()))
	return facts
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

// join joins what is not empty.
func join(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}

package present

import (
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Unusable says why no key on the token can be used or made, "" if one can.
func Unusable(t hsm.TokenInfo) string {
	switch {
	case !t.Initialized:
		return "the token is not initialized"
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
	kind := t.Kind()
	if kind.HasSlots() {
		if t.Label == "" {
			return kind.Name // the name says the model
		}
		return strings.TrimSpace(kind.Name + " " + strings.TrimPrefix(model, kind.Name))
	}
	if model == "" {
		return kind.Name
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

// TokenFacts are what is known of a token beside its name. d may be nil.
func TokenFacts(t hsm.TokenInfo, d *hsm.Details) []Fact {
	facts := []Fact{
		{Name: "Serial", Value: text.Clean(t.Serial)},
		{Name: "Kind", Value: join(Kind(t), text.Clean(strings.TrimSpace(t.Manufacturer)))},
	}
	facts = append(facts, Secrets(t, d)...)
	form := ""
	if d != nil {
		attests := "no"
		if d.Attests {
			attests = "the card can attest its keys"
		}
		facts = append(facts, Fact{Name: "Attestation", Value: attests})
		form = text.Clean(d.FormFactor)
		if d.FIPS {
			form = join(form, "FIPS")
		}
	}
	if t.Kind().HasSlots() && t.Can != (hsm.Abilities{}) {
		facts = append(facts, Fact{Name: "Cannot", Value: text.Clean(lacking(t.Can))})
	}
	uri, module := t.URI(), ""
	if t.Module != nil {
		module, uri.ModulePath = text.Clean(t.Module.Path), "" // the module has a line of its own
		if t.Module.Server != "" {
			module = join(module, "by "+text.Clean(t.Module.Server))
		}
	}
	return append(facts,
		Fact{Name: "URI", Value: text.Clean(uri.String())},
		Fact{Name: "Firmware", Value: text.Clean(t.Firmware)},
		Fact{Name: "Form", Value: form},
		Fact{Name: "Reader", Value: text.Clean(strings.TrimSpace(t.Reader))},
		Fact{Name: "Module", Value: module})
}

// lacking says what a card cannot do that others can, "" if nothing.
func lacking(can hsm.Abilities) string {
	var all []string
	if l := can.Lack; l.Algorithms != "" {
		all = append(all, "make "+strings.ReplaceAll(l.Algorithms, " ", ", ")+" keys ("+l.Why+")")
	}
	for _, a := range []struct {
		able bool
		what string
	}{{can.Policies, "choose PIN and touch policies"}, {can.Delete, "delete keys"}} {
		if !a.able {
			all = append(all, a.what)
		}
	}
	return strings.Join(all, "; ")
}

// NoToken is said where there is none.
const NoToken = "No token found."

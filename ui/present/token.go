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

package present

import (
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

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

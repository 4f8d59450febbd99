package present

import (
	"fmt"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Place names a slot in a sentence: "in slot 9a", or the label in quotes.
func Place(s hsm.Slot) string {
	switch {
	case s.URI.Kind().HasSlots():
		return "in slot " + text.Clean(s.ID)
	case s.Label != "":
		return text.Clean(fmt.Sprintf("%q", s.Label))
	}
	return text.Clean(s.ID)
}

// DestroyKey returns the question before the one key in l is destroyed, and the sentence
// below it.
func DestroyKey(l token.Loss) (question, detail string) {
	if l.Slots[0].Half.OfKey() {
		detail = fmt.Sprintf("What is left of the key %s of token %q is destroyed. This cannot be undone.",
			Place(l.Slots[0]), Token(l.Token))
		if len(l.Enrollments) == 0 {
			detail += " kubehsm cannot tell which program made it."
		}
		return "Destroy half a key?", detail
	}
	return "Destroy the key?",
		fmt.Sprintf("The key %s of token %q, and its certificate, are destroyed. This cannot be undone.",
			Place(l.Slots[0]), Token(l.Token))
}

// Overwrite returns the question before a new key takes the place of what is in a slot, and
// the sentence below it.
func Overwrite(t hsm.TokenInfo, slot string) (question, detail string) {
	return "Destroy what is in slot " + text.Clean(slot) + "?",
		fmt.Sprintf("A new key takes its place on token %q. The old one cannot be restored.", Token(t))
}

// Erase returns the question before a token that is set up is set up anew, and the sentence
// below it.
func Erase(t hsm.TokenInfo) (question, detail string) {
	return "Erase the token?",
		fmt.Sprintf("All keys, certificates and data on token %q are destroyed for good. Its SO PIN stays.", Token(t))
}

package present

import (
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Attestation says what a token states of a key, and what that is worth, in lines.
func Attestation(a token.Attestation) []string {
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

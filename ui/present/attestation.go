package present

import (
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Attestation says what a token states of a key, and what that is worth, in lines.
func Attestation(a token.Attestation) []string {
	verdict := Verdict(a).Words
	if a.Statement == (attest.Statement{}) { // no statement could be read
		return []string{verdict}
	}
	return []string{text.Clean(a.Statement.String()), "", verdict}
}

// Verdict says what an attestation is worth.
func Verdict(a token.Attestation) Line {
	switch {
	case a.Err != nil:
		return Line{Words: "It is NOT verified: " + ui.Message(a.Err) + ". Whoever made this statement can claim anything.", Level: Bad}
	case a.Checked:
		return Line{Words: "It is verified to " + text.Clean(a.Statement.Root) +
			", and is for this very key: the key was made on the device and cannot leave it.", Level: Good}
	}
	return Line{Words: "It is verified to " + text.Clean(a.Statement.Root) + ". Which key it is for was not compared."}
}

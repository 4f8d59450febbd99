package present

import (
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/text"
)

// Attestation says what a token states of a key, none if it could not be read.
func Attestation(a token.Attestation) []Fact {
	s := a.Statement
	if s == (attest.Statement{}) {
		return nil
	}
	fips := ""
	if s.FIPS {
		fips = "of a FIPS series"
	}
	return []Fact{
		{Name: "Says", Value: text.Clean(s.String())},
		{Name: "Slot", Value: text.Clean(s.Slot)},
		{Name: "Key", Value: text.Clean(string(s.Algorithm))},
		{Name: "FIPS", Value: fips},
	}
}

// Verdict says what an attestation is worth.
func Verdict(a token.Attestation) Line {
	switch {
	case a.Err != nil:
		return Line{Words: "It is NOT verified: " + ui.Message(a.Err) + ". Whoever made this statement can claim anything.",
			Level: Bad}
	case a.Checked:
		return Line{Words: "It is verified to " + text.Clean(a.Statement.Root) +
			", and is for this very key: the key was made on the device and cannot leave it.", Level: Good}
	}
	return Line{Words: "It is verified to " + text.Clean(a.Statement.Root) + ". Which key it is for was not compared."}
}

// Attested is an attestation with the [Verdict] on it.
func Attested(a token.Attestation) []Section {
	return []Section{{Facts: Attestation(a)}, {Lines: []Line{Verdict(a)}}}
}

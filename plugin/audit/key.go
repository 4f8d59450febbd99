package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/kubehsm/kubehsm/plugin/consent"
)

// KeyState is what the log says of a key's consent policy.
type KeyState struct {
	// Version is the latest version that the key has signed, Signed its text and signature.
	// Number is 0 if the log knows none.
	Version consent.Version
	Signed  consent.Signed
	// Ever is the strictest policy that the log has known for the key.
	Ever consent.Policy
	// InLog tells whether the log still has the version: somebody may have put an older log
	// in its place.
	InLog bool
}

// follow takes one more record of the key's in. A version counts only if it follows the one
// before: what a program has had signed ahead, for later, does not.
func (k *KeyState) follow(r Record) {
	if r.Policy != "" && r.Reason != PolicyRecord {
		k.Ever = consent.Strictest(k.Ever, consent.ParsePolicy(r.Policy))
	}
	for _, p := range r.Ever {
		k.Ever = consent.Strictest(k.Ever, consent.ParsePolicy(p))
	}
	if r.Statement == "" {
		return
	}
	if r.Statement == k.Signed.Text {
		k.InLog = true
		return
	}
	signed := consent.Signed{Text: r.Statement, Signature: r.Signature}
	v, err := signed.Open(r.Key)
	if err != nil || k.Version.Number > 0 && !follows(v, k) {
		return
	}
	k.Version, k.Signed, k.InLog = v, signed, true
	k.Ever = consent.Strictest(k.Ever, v.Consent())
}

// follows tells whether v was signed after k's version, for which it must know its text.
func follows(v consent.Version, k *KeyState) bool {
	return v.Number >= k.Version.Number && v.Before == consent.Digest(k.Signed.Text)
}

// maxEver bounds Ever in a record, in bytes of JSON: the longest version has room beside it.
const maxEver = 3 << 9

// everything asks for everything: no policy has that name.
const everything = "everything"

// Record is k as a new file of the log begins with it.
func (k KeyState) Record(hash string) Record {
	r := Record{Event: PolicyKey, Reason: PolicyKept, Key: hash, Policy: k.Version.Consent().String(),
		Number: k.Version.Number, Statement: k.Signed.Text, Signature: k.Signed.Signature}
	for _, p := range k.Ever.Parts() {
		r.Ever = append(r.Ever, p.String())
	}
	if size(r.Ever) > maxEver {
		r.Ever = []string{everything}
	}
	return r
}

// size is how many bytes a value takes in JSON.
func size(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return maxLine
	}
	return len(b)
}

// Problem is why the record of a key's policy does not count.
type Problem string

// The problems.
const (
	NoProblem     Problem = ""
	RecordMissing Problem = "record-missing" // the log knows a version, and there is no record
	RecordOlder   Problem = "record-older"   // the log knows a later version
	RecordAltered Problem = "record-altered" // the key has not signed it, or not after the version that the log knows
)

// Words says in a clause what is wrong with the record.
func (p Problem) Words() string {
	switch p {
	case RecordMissing:
		return "is missing"
	case RecordOlder:
		return "is older than the one that the audit log knows"
	}
	return "was altered, or cannot be read"
}

// Standing is what counts for a key.
type Standing struct {
	// Policy is what the record and the log ask for together. What the key's enrollments
	// ask for themselves comes to that: unsigned, it can only make it stricter.
	Policy consent.Policy
	// Version is the version in the record, if the key has signed it; its Number is 0 if not.
	Version consent.Version
	// Problem is why the record alone does not count; then the strictest policy that the
	// log has known does.
	Problem Problem
}

// Signed tells whether the policy is one that the key has signed.
func (s Standing) Signed() bool { return s.Version.Number > 0 && s.Problem == NoProblem }

// Judge says what counts for the key with that hash, whose record is signed, or could not
// be read for the reason err.
func (all *Known) Judge(hash string, signed consent.Signed, err error) (s Standing) {
	known := KeyState{}
	if k := all.Keys[hash]; k != nil {
		known = *k
	}
	if errors.Is(err, fs.ErrNotExist) {
		if known.Version.Number == 0 { // no policy signed yet
			return s
		}
		return Standing{Policy: known.Ever, Problem: RecordMissing}
	}
	if err == nil && known.Version.Number > 0 && signed.Text == known.Signed.Text &&
		bytes.Equal(signed.Signature, known.Signed.Signature) { // verified when the log was read
		return Standing{Policy: known.Version.Consent(), Version: known.Version}
	}
	if err == nil {
		s.Version, err = signed.Open(hash)
	}
	switch {
	case err != nil:
		s.Version, s.Problem = consent.Version{}, RecordAltered
	case known.Version.Number == 0, signed.Text == known.Signed.Text, follows(s.Version, &known):
		return Standing{Policy: s.Version.Consent(), Version: s.Version}
	case s.Version.Number < known.Version.Number:
		s.Problem = RecordOlder
	default:
		s.Problem = RecordAltered
	}
	s.Policy = known.Ever
	if s.Version.Number > 0 {
		s.Policy = consent.Strictest(known.Ever, s.Version.Consent())
	}
	return s
}

// Next returns the number of the key's next version, and the text that this has to follow:
// that of the log's latest version, or of the record's if the log knows none.
func (all *Known) Next(hash string, s Standing, signed consent.Signed) (number uint64, before string) {
	number = s.Version.Number
	if number > 0 {
		before = signed.Text
	}
	if k := all.Keys[hash]; k != nil && k.Version.Number > 0 {
		number, before = max(number, k.Version.Number), k.Signed.Text
	}
	return number + 1, before
}

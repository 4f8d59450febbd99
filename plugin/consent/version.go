package consent

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// Version is one version of the consent policy of a key, which the key signs.
type Version struct {
	// Key is the public key that the policy belongs to, as a PKIX SubjectPublicKeyInfo.
	Key []byte `json:"key"`
	// Number counts the versions of the key's policy, from 1.
	Number uint64 `json:"number"`
	// Before is the [Digest] of the version before; "" for the first version, and where
	// the version before is not known.
	Before string `json:"before,omitempty"`
	// Policy is the policy in the words of its rules, see [ParsePolicy].
	Policy string    `json:"policy"`
	Time   time.Time `json:"time"`
	// Nonce makes each version another one: nobody can have it signed ahead.
	Nonce string `json:"nonce"`
}

// versionDomain begins what is signed, as domain does for statements. Neither is the
// other's beginning.
const versionDomain = "kubehsm policy v1\n"

// Bounds of a version in bytes. The audit log keeps its text in one record, with other words
// beside it.
const (
	// maxWords bounds the policy in words. It leaves room for any key, so that the next key
	// can sign the policy as well.
	maxWords = 7 << 10
	// maxVersion bounds the text as JSON quotes it.
	maxVersion = 10<<10 + 256
)

// sizeInJSON tells how many bytes a text takes in JSON.
func sizeInJSON(text string) int {
	b, err := json.Marshal(text)
	if err != nil {
		return math.MaxInt
	}
	return len(b)
}

// maxNumber bounds the numbers of versions. Those after the last number have it too: what a
// program has had signed ahead must not stand in the way of the next version.
const maxNumber = 1 << 53

// Next is the version with that number which sets the policy p of a key. before is the text
// of the version before, "" if none is known.
func Next(pub crypto.PublicKey, number uint64, before string, p Policy, now time.Time) (Version, error) {
	if err := p.Validate(); err != nil {
		return Version{}, err
	}
	if n := len(p.words()); n > maxWords {
		return Version{}, fmt.Errorf("the rules are too long to be signed: they have %d bytes as text, the limit is %d",
			n, maxWords)
	}
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return Version{}, fmt.Errorf("consent policy: %w", err)
	}
	v := Version{Key: der, Number: min(number, maxNumber), Policy: p.words(), Time: now, Nonce: rand.Text()}
	if before != "" {
		v.Before = Digest(before)
	}
	return v, nil
}

// Text is the version as it is signed and kept.
func (v Version) Text() (string, error) {
	v.Time = v.Time.UTC().Truncate(time.Microsecond)
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("consent policy: %w", err)
	}
	text := versionDomain + string(b)
	if n := sizeInJSON(text); n > maxVersion {
		return "", fmt.Errorf("the version of a consent policy has %d bytes, but at most %d are allowed", n, maxVersion)
	}
	return text, nil
}

// Hash is [hsm.Fingerprint] of the key.
func (v Version) Hash() string {
	sum := sha256.Sum256(v.Key)
	return hex.EncodeToString(sum[:])
}

// Consent is the policy that the version sets.
func (v Version) Consent() Policy { return ParsePolicy(v.Policy) }

// Digest is the SHA-256 of a version's text, in hex.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Signed is the text of a version and the key's signature over it.
type Signed struct {
	Text      string `json:"text"`
	Signature []byte `json:"signature"`
}

// Open is [ReadVersion] of what the key has signed. Errors wrap [ErrSignature].
func (s Signed) Open(hash string) (Version, error) {
	v, err := ReadVersion(s.Text, hash)
	if err != nil {
		return v, err
	}
	pub, err := x509.ParsePKIXPublicKey(v.Key)
	if err != nil {
		return Version{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if err := verify(pub, versionDomain, s.Text, s.Signature); err != nil {
		return Version{}, err
	}
	return v, nil
}

// ReadVersion reads the text of a version of the policy of the key with that hash
// ([hsm.Fingerprint]), whoever has signed it. Errors wrap [ErrSignature].
func ReadVersion(text, hash string) (Version, error) {
	body, ok := strings.CutPrefix(text, versionDomain)
	if !ok || sizeInJSON(text) > maxVersion {
		return Version{}, fmt.Errorf("%w: it is not a version of a consent policy", ErrSignature)
	}
	var v Version
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return Version{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if v.Hash() != hash {
		return Version{}, fmt.Errorf("%w: it is another key's", ErrSignature)
	}
	if v.Number == 0 || v.Number > maxNumber {
		return Version{}, fmt.Errorf("%w: it has number %d", ErrSignature, v.Number)
	}
	if err := v.Consent().Validate(); err != nil {
		return Version{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	return v, nil
}

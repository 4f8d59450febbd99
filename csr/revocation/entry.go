package revocation

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// CredentialID is the key in a user's extra fields under which the API server names the
// credential; CertificatePrefix begins the value where that is a client certificate.
const (
	CredentialID      = "authentication.kubernetes.io/credential-id"
	CertificatePrefix = "X509SHA256="
)

// lastYear is the last one that RFC 3339 can say.
const lastYear = 9999

// maxWords bounds a user's name, a reason and an author in an entry, in characters.
const maxWords = 256

// Entry is one revoked certificate.
type Entry struct {
	// Certificate is the SHA-256 of the certificate's DER form: 64 lower-case hex digits.
	Certificate string `json:"certificate"`
	// Key is the SHA-256 of its SubjectPublicKeyInfo, in the same form; "" if unknown.
	Key string `json:"key,omitempty"`
	// User is whom the certificate was for; "" if unknown.
	User string `json:"user,omitempty"`
	// NotAfter is when the certificate ends, and the entry with it. An entry whose end is
	// unknown (zero) stays until it is lifted.
	NotAfter time.Time `json:"notAfter,omitzero"`
	// Reason, By and At say why, by whom and when it was revoked. The list keeps At in whole seconds.
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// EntryOf is the entry for a certificate. Reason, author and time are the caller's to add.
func EntryOf(c *x509.Certificate) Entry {
	sum, key := sha256.Sum256(c.Raw), sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return Entry{Certificate: hex.EncodeToString(sum[:]), Key: hex.EncodeToString(key[:]), User: c.Subject.CommonName,
		NotAfter: c.NotAfter.UTC()}
}

// Ended tells whether the certificate has ended at now.
func (e Entry) Ended(now time.Time) bool { return !e.NotAfter.IsZero() && !now.Before(e.NotAfter) }

// end is the entry's end as the list keeps it. Of two, the later one is the greater string.
func (e Entry) end() string { return cmp.Or(stamp(e.NotAfter), "never") }

// ParseFingerprint reads a certificate's SHA-256 as people find it: bare, with colons as
// openssl prints it, or as the audit log's credential-id.
func ParseFingerprint(s string) (string, error) {
	hash := strings.TrimSpace(s)
	for _, prefix := range []string{CertificatePrefix, "sha256 Fingerprint=", "SHA256:"} {
		if len(hash) > len(prefix) && strings.EqualFold(hash[:len(prefix)], prefix) {
			hash = hash[len(prefix):]
		}
	}
	hash = strings.ToLower(strings.ReplaceAll(hash, ":", ""))
	if b, err := hex.DecodeString(hash); err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("%q is not the SHA-256 of a certificate: 64 hex digits", s)
	}
	return hash, nil
}

// Used is the fingerprint of the certificate that a user with these extra fields has signed
// in with, "" if it was none or the API server does not tell.
func Used[V ~[]string](extra map[string]V) string {
	for _, id := range extra[CredentialID] {
		if hash, ok := strings.CutPrefix(id, CertificatePrefix); ok {
			return strings.ToLower(hash)
		}
	}
	return ""
}

// The places of an entry's parts in the literal's list. The policy's message uses some.
const (
	atUser = iota
	atUntil
	atKey
	atBy
	atDay
	atReason
	parts
)

// partsBetween stands between the parts of an entry. None has one, see [Brief].
const partsBetween = "\t"

// text is the entry in the policy's map literal, which is a map of strings in JSON and in CEL. A
// list of strings for each entry would take the API server four times the memory.
func (e Entry) text() (string, error) {
	switch same, err := ParseFingerprint(e.Certificate); {
	case err != nil:
		return "", err
	case same != e.Certificate: // a hash as written would match no certificate
		return "", fmt.Errorf("%q is not in the form of an entry: 64 lower-case hex digits", e.Certificate)
	}
	var list [parts]string
	list[atUser], list[atBy], list[atReason] = Brief(e.User), Brief(e.By), Brief(e.Reason)
	list[atUntil], list[atKey], list[atDay] = stamp(e.NotAfter), shortKey(e.Key), stamp(e.At)
	return strings.Join(list[:], partsBetween), nil
}

// line has the entries of a certificate in the literal. The policy's message has the parts of the first.
func line(certificate string, texts ...string) string {
	return quote(certificate) + ": " + quote(strings.Join(texts, partsBetween))
}

// shortKey is a key's hash in base64, which takes a third less than hex; what is no such hash stays
// as it is.
func shortKey(hash string) string {
	if b, err := hex.DecodeString(hash); err == nil && len(b) == sha256.Size {
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return hash
}

// longKey is what [shortKey] was made of.
func longKey(short string) string {
	if b, err := base64.RawURLEncoding.DecodeString(short); err == nil && len(b) == sha256.Size {
		return hex.EncodeToString(b)
	}
	return short
}

// entryOf reads an entry of the literal.
func entryOf(hash string, list []string) (Entry, error) {
	if same, err := ParseFingerprint(hash); err != nil || same != hash || len(list) != parts {
		return Entry{}, fmt.Errorf("%q is no entry of kubehsm's", hash)
	}
	e := Entry{Certificate: hash, Key: longKey(list[atKey]), User: list[atUser], Reason: list[atReason], By: list[atBy]}
	for _, t := range []struct {
		to   *time.Time
		text string
	}{{&e.NotAfter, list[atUntil]}, {&e.At, list[atDay]}} {
		if t.text == "" {
			continue
		}
		var err error
		if *t.to, err = time.Parse(time.RFC3339, t.text); err != nil {
			return e, fmt.Errorf("entry %s: %w", hash, err)
		}
	}
	return e, nil
}

// stamp is t in the literal, "" for never: a policy with a year of five digits could not be read.
func stamp(t time.Time) string {
	if t.IsZero() || t.UTC().Year() > lastYear {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Brief is s on one line and not too long: it becomes part of a message of the API server,
// which shows none that has a line break.
func Brief(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " "), "")
	if r := []rune(s); len(r) > maxWords {
		s = string(r[:maxWords-1]) + "…"
	}
	return s
}

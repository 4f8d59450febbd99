package consent

import (
	"crypto"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Statement is what a person agreed to.
type Statement struct {
	Time time.Time `json:"time"`
	// Enrollment is the enrollment's name, Server its API server's URL.
	Enrollment string  `json:"enrollment"`
	Server     string  `json:"server"`
	Request    Request `json:"request"`
	// PID, Command and Program are the client's, which sent the request. Command is what
	// it calls itself.
	PID     int     `json:"pid,omitempty"`
	Command string  `json:"command,omitempty"`
	Program Program `json:"program,omitzero"`
	// Body is the request's, nil if it has none.
	Body *Body `json:"body,omitempty"`
	// Query is the SHA-256, in hex, of the query of the request's URL, "" if it has none. The
	// command of an exec is there.
	Query string `json:"query,omitempty"`
	// Nonce makes each statement another one.
	Nonce string `json:"nonce"`
}

// Body is what a statement says of a request's body.
type Body struct {
	// Length is in bytes, -1 if it is not known.
	Length int64 `json:"length"`
	// SHA256 is the digest of its bytes, in hex; "" of a body that was not read.
	SHA256 string `json:"sha256,omitempty"`
}

// String is the body for a person to read, the digest cut.
func (b Body) String() string {
	size := "of unknown length"
	if b.Length >= 0 {
		size = fmt.Sprintf("%d bytes", b.Length)
	}
	if len(b.SHA256) < 16 {
		return size + ", not read"
	}
	return size + ", SHA-256 " + b.SHA256[:16] + "..."
}

// domain begins the signed text. Nothing else that a key signs begins so: TLS 1.3 has 64 spaces
// (RFC 8446 section 4.4.3), TLS 1.2 a handshake message's type, certificate requests an ASN.1
// sequence.
const domain = "kubehsm consent v1\n"

// Text is the statement as it is signed and kept. A missing nonce is made up.
func (s Statement) Text() (string, error) {
	if s.Nonce == "" {
		s.Nonce = rand.Text()
	}
	s.Time = s.Time.UTC().Truncate(time.Microsecond)
	b, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("statement: %w", err)
	}
	return domain + string(b), nil
}

// Read takes a statement's text apart.
func Read(text string) (Statement, error) {
	body, ok := strings.CutPrefix(text, domain)
	if !ok {
		return Statement{}, errors.New("not a statement of consent")
	}
	var s Statement
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		return Statement{}, fmt.Errorf("not a statement of consent: %w", err)
	}
	return s, nil
}

// Verify checks a signature of [Sign] over a statement's text. Errors wrap
// [ErrSignature].
func Verify(pub crypto.PublicKey, text string, signature []byte) error {
	return VerifyText(pub, domain, text, signature)
}

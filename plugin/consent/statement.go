package consent

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // the digests that Sign and Verify use
	_ "crypto/sha512"
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

// domain begins what is signed. Nothing else that a key signs begins so: TLS 1.3
// has 64 spaces (RFC 8446 section 4.4.3), TLS 1.2 a handshake message's type,
// certificate requests an ASN.1 sequence.
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

// ErrSignature says that a signature is not one of the statement by the key.
var ErrSignature = errors.New("the signature is not the key's over this statement")

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

// Sign signs a statement's text: ECDSA with the digest of the curve's size,
// RSASSA-PSS with SHA-256, Ed25519 (RFC 8032).
func Sign(key crypto.Signer, text string) ([]byte, error) {
	digest, opts, err := digestOf(key.Public(), text)
	if err != nil {
		return nil, err
	}
	return key.Sign(rand.Reader, digest, opts)
}

// Verify checks a signature of [Sign]. Errors wrap [ErrSignature].
func Verify(pub crypto.PublicKey, text string, signature []byte) error {
	digest, opts, err := digestOf(pub, text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	good := false
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(k, digest, signature)
	case ed25519.PublicKey:
		good = ed25519.Verify(k, digest, signature)
	case *rsa.PublicKey:
		good = rsa.VerifyPSS(k, opts.HashFunc(), digest, signature,
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	}
	if !good || !strings.HasPrefix(text, domain) {
		return ErrSignature
	}
	return nil
}

func digestOf(pub crypto.PublicKey, text string) ([]byte, crypto.SignerOpts, error) {
	var opts crypto.SignerOpts
	switch k := pub.(type) {
	case *ecdsa.PublicKey:
		opts = crypto.SHA256
		if k.Curve.Params().BitSize > 256 {
			opts = crypto.SHA384
		}
	case ed25519.PublicKey:
		return []byte(text), crypto.Hash(0), nil
	case *rsa.PublicKey:
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
	default:
		return nil, nil, fmt.Errorf("a key of type %T cannot sign statements", pub)
	}
	h := opts.HashFunc().New()
	_, _ = h.Write([]byte(text)) // a hash takes everything (hash.Hash)
	return h.Sum(nil), opts, nil
}

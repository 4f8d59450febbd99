package execcredential

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrResponse says that an answer would not be accepted by client-go.
var ErrResponse = errors.New("unusable exec credential answer")

// Response is a client certificate with its key. Print shows neither.
type Response struct {
	// CertificatePEM holds the certificate, leaf first, in ASCII.
	CertificatePEM []byte
	// KeyPEM holds the leaf's private key, in ASCII.
	KeyPEM []byte
	// Expiration is when the client has to ask again; sent in whole seconds,
	// rounded down. Zero means when the process ends or the server answers 401.
	Expiration time.Time
}

// String keeps the key out of logs.
func (Response) String() string { return "exec credential (hidden)" }

// GoString keeps the key out of logs.
func (r Response) GoString() string { return r.String() }

// Write sends r to w as one ExecCredential of version apiVersion, which must be
// the request's ([Request.APIVersion]), in a single call of w.Write. The bytes
// are those of client-go's own encoder, newline included.
//
// Nothing is written, and the error wraps [ErrResponse] (or [ErrVersion]), if
// the key does not belong to the certificate or the answer would outlive it.
func Write(w io.Writer, apiVersion string, r Response) error {
	if err := checkVersion(apiVersion, kind); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrResponse, err)
	}
	buf := Encode(apiVersion, r)
	defer clear(buf)
	n, err := w.Write(buf)
	if err == nil && n < len(buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write exec credential: %w", err)
	}
	return nil
}

// Encode returns what [Write] writes. It checks nothing: it is for who has made the parts of r for each other, for
// whom the check would take longer than the rest of the answer. The result is the caller's to clear.
func Encode(apiVersion string, r Response) []byte {
	size := 2*(len(r.CertificatePEM)+len(r.KeyPEM)) + 512 // never grows, so that no copy is left behind
	buf := make([]byte, 0, size)
	buf = append(buf, `{"kind":"`+kind+`","apiVersion":"`+apiVersion+`","spec":{"interactive":false},"status":{`...)
	if !r.Expiration.IsZero() {
		buf = append(buf, `"expirationTimestamp":"`...)
		buf = r.Expiration.UTC().AppendFormat(buf, time.RFC3339)
		buf = append(buf, `",`...)
	}
	buf = append(buf, `"clientCertificateData":"`...)
	buf = appendText(buf, r.CertificatePEM)
	buf = append(buf, `","clientKeyData":"`...)
	buf = appendText(buf, r.KeyPEM)
	return append(buf, "\"}}\n"...)
}

func (r Response) check() error {
	if !plain(r.CertificatePEM) || !plain(r.KeyPEM) {
		return errors.New("the PEM holds bytes that are not plain text")
	}
	pair, err := tls.X509KeyPair(r.CertificatePEM, r.KeyPEM)
	if err != nil {
		return err
	}
	leaf := pair.Leaf
	if leaf == nil { // GODEBUG=x509keypairleaf=0
		if leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return err
		}
	}
	if r.Expiration.After(leaf.NotAfter) {
		return fmt.Errorf("it would be used until %s, but the certificate ends at %s",
			r.Expiration.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// plain reports whether only line ends in b need an escape in JSON.
func plain(b []byte) bool {
	for _, c := range b {
		switch {
		case c == '\n' || c == '\r':
		case c < 0x20 || c > 0x7e, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

func appendText(buf, text []byte) []byte {
	for _, c := range text {
		switch c {
		case '\n':
			buf = append(buf, `\n`...)
		case '\r':
			buf = append(buf, `\r`...)
		default:
			buf = append(buf, c)
		}
	}
	return buf
}

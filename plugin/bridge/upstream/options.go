package upstream

import (
	"context"
	"crypto"
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// Options describe an upstream.
type Options struct {
	Enrollment enrollment.Enrollment
	// Policy is the consent policy in force, as strict as the enrollment's or stricter.
	Policy consent.Policies
	// Chain is the client certificate's, leaf first.
	Chain []*x509.Certificate
	// Signer signs for connections that a request opens, with the context of the
	// request that caused the dial, see [ClientOf]; see also [Upstream.SignIn].
	Signer Signing
	Log    *slog.Logger
	// Handshake bounds a TLS handshake and its signature; 0 is 30 s.
	Handshake time.Duration
}

// Signing returns the key on the token, for one full handshake.
type Signing func(ctx context.Context) (crypto.Signer, error)

// Status describes an upstream.
type Status struct {
	Enrollment  string `json:"enrollment"`
	Server      string `json:"server"`
	Protocol    string `json:"protocol"` // "h2" or "http/1.1"
	Connections int    `json:"connections"`
	Requests    uint64 `json:"requests"`
	InFlight    int64  `json:"inFlight"`
	// Dials counts handshakes that might have needed a signature; Resumed those that needed none.
	Dials      uint64 `json:"dials"`
	Resumed    uint64 `json:"resumed"`
	Signatures uint64 `json:"signatures"`
	// Rejected: the API server answered 401 since the last successful check.
	Rejected  bool      `json:"rejected,omitempty"`
	LastUsed  time.Time `json:"lastUsed,omitzero"`
	LastError string    `json:"lastError,omitempty"`
	// CertificateEnds is when the certificate of the token's key does.
	CertificateEnds time.Time `json:"certificateEnds,omitzero"`
}

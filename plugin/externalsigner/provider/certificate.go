package provider

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// serverTime is how long a TLS handshake may take where the client sets no
// limit: the API server's is 32 s. margin is what is left for the network.
const (
	serverTime = 31 * time.Second
	margin     = 500 * time.Millisecond
)

// leaf is the signer's certificate, kept until it expires or the API server refuses it.
type leaf struct {
	signer *signer
	asking chan struct{} // holds a token while the signer is asked for it

	mu    sync.Mutex
	chain []*x509.Certificate // the certificate and the issuers to present after it
	since time.Time
}

func newLeaf(s *signer) *leaf { return &leaf{signer: s, asking: make(chan struct{}, 1)} }

func (l *leaf) get(ctx context.Context) ([]*x509.Certificate, error) {
	if chain := l.kept(); chain != nil {
		return chain, nil
	}
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if chain := l.kept(); chain != nil {
		return chain, nil
	}
	chain, err := l.signer.certificate(ctx)
	if err != nil {
		return nil, err
	}
	if cert := chain[0]; !time.Now().Before(cert.NotAfter) {
		return nil, fmt.Errorf("the certificate of external signer %s expired on %s: it must be renewed",
			l.signer, cert.NotAfter.Format(time.RFC3339))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chain, l.since = chain, time.Now()
	return chain, nil
}

func (l *leaf) kept() []*x509.Certificate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.chain == nil || !time.Now().Before(l.chain[0].NotAfter) {
		return nil
	}
	return l.chain
}

// forget drops the certificate, unless it was replaced a moment ago.
func (l *leaf) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.since) > l.signer.options.CoolDown {
		l.chain = nil
	}
}

// forHandshake returns a [tls.Config.GetClientCertificate] for handshakes of at most limit; 0
// leaves the time to the server.
func (l *leaf) forHandshake(limit time.Duration) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if limit == 0 {
		limit = serverTime
	}
	return func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		start := time.Now()
		chain, err := l.get(info.Context())
		if err != nil {
			return nil, err
		}
		cert := &tls.Certificate{
			Leaf: chain[0],
			PrivateKey: &remoteKey{signer: l.signer, public: chain[0].PublicKey, ctx: info.Context(), start: start,
				limit: limit},
		}
		for _, each := range chain {
			cert.Certificate = append(cert.Certificate, each.Raw)
		}
		return cert, nil
	}
}

type remoteKey struct {
	signer *signer
	public crypto.PublicKey
	ctx    context.Context
	start  time.Time
	limit  time.Duration
}

// Public implements [crypto.Signer].
func (k *remoteKey) Public() crypto.PublicKey { return k.public }

// Sign implements [crypto.Signer]. The signature is verified: a wrong key would
// show as an alert of the server without a reason otherwise.
func (k *remoteKey) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	ctx, cancel := context.WithDeadlineCause(k.ctx, k.start.Add(max(k.limit-margin, k.limit/2)), late(k.limit))
	defer cancel()
	k.signer.signing.Add(1)
	defer k.signer.signing.Add(-1)
	signature, err := k.signer.sign(ctx, digest, opts)
	if err != nil {
		return nil, err
	}
	if err := verify(k.public, digest, signature, opts); err != nil {
		return nil, fmt.Errorf("external signer %s: its signature does not fit the key in its certificate: %w", k.signer, err)
	}
	return signature, nil
}

func late(limit time.Duration) error {
	return fmt.Errorf("there was no signature within the %s that a TLS handshake may take: answer its question sooner",
		limit)
}

func verify(public crypto.PublicKey, digest, signature []byte, opts crypto.SignerOpts) error {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if pss, ok := opts.(*rsa.PSSOptions); ok {
			return rsa.VerifyPSS(key, opts.HashFunc(), digest, signature, pss)
		}
		return rsa.VerifyPKCS1v15(key, opts.HashFunc(), digest, signature)
	case *ecdsa.PublicKey:
		if ecdsa.VerifyASN1(key, digest, signature) {
			return nil
		}
	case ed25519.PublicKey:
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, digest, signature) {
			return nil
		}
	default:
		return fmt.Errorf("a key of type %T", public)
	}
	return errors.New("verification failed")
}

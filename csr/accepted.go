package csr

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Accepted says which client certificates an API server accepts, as far as it tells.
type Accepted struct {
	// Requested is false if its TLS handshake requests no client certificate: none
	// can sign in at this address.
	Requested bool
	// Names are the names of the authorities that the handshake lists, as RFC 5280
	// encodes them; empty if it lists none.
	Names [][]byte
	// Roots are the authorities themselves, nil where they may not be read.
	Roots *x509.CertPool
}

// authenticationMap is where API servers publish whom they accept, in kube-system.
const authenticationMap = "extension-apiserver-authentication"

// AskAccepted asks the API server at the URL server by a handshake over t,
// without a credential.
func AskAccepted(ctx context.Context, t *http.Transport, server string) (*Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	a := &Accepted{}
	t = t.Clone()
	defer t.CloseIdleConnections()
	t.TLSClientConfig.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		a.Requested, a.Names = true, info.AcceptableCAs
		return &tls.Certificate{}, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+"/version", nil)
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != "https" {
		return nil, errors.New("the API server is not reached by TLS")
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, apiError("ask which certificates are accepted", server, err)
	}
	return a, resp.Body.Close()
}

// ErrUntrusted: the API server does not accept certificates of this issuer.
var ErrUntrusted = errors.New("the API server does not accept certificates of this issuer")

// Check is [ErrUntrusted] if the API server is certain to turn the certificate down.
func (a *Accepted) Check(c *Certificate) error {
	issuer := fmt.Sprintf("%q", c.Leaf.Issuer.String())
	switch {
	case !a.Requested:
		return fmt.Errorf("%w: it requests no client certificate at this address", ErrUntrusted)
	case len(a.Names) > 0 && !a.names(c):
		return fmt.Errorf("%w: issued by %s; accepted authorities: %s", ErrUntrusted, issuer, a.nameWords())
	case a.Roots != nil && !a.verifies(c):
		return fmt.Errorf("%w: issued by %s, and no authority in the cluster's ConfigMap %s has signed it or its chain",
			ErrUntrusted, issuer, authenticationMap)
	}
	return nil
}

// names tells whether the handshake names an issuer of the chain.
func (a *Accepted) names(c *Certificate) bool {
	for _, cert := range append([]*x509.Certificate{c.Leaf}, c.Chain...) {
		for _, name := range a.Names {
			if bytes.Equal(cert.RawIssuer, name) {
				return true
			}
		}
	}
	return false
}

// verifies tells whether one of the roots signed the chain, as far as can be told.
func (a *Accepted) verifies(c *Certificate) bool {
	o := x509.VerifyOptions{Roots: a.Roots, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, cert := range c.Chain {
		o.Intermediates.AddCert(cert)
	}
	// checks who signed, not whether the certificate is still valid
	if o.CurrentTime = time.Now(); o.CurrentTime.After(c.Leaf.NotAfter) {
		o.CurrentTime = c.Leaf.NotAfter
	}
	_, err := c.Leaf.Verify(o)
	var unknown x509.UnknownAuthorityError
	return !errors.As(err, &unknown)
}

// nameWords lists the names of the handshake.
func (a *Accepted) nameWords() string {
	words := make([]string, len(a.Names))
	for i, raw := range a.Names {
		var sequence pkix.RDNSequence
		var name pkix.Name
		if rest, err := asn1.Unmarshal(raw, &sequence); err != nil || len(rest) > 0 {
			words[i] = fmt.Sprintf("%x", raw)
			continue
		}
		name.FillFromRDNSequence(&sequence)
		words[i] = fmt.Sprintf("%q", name.String())
	}
	return strings.Join(words, ", ")
}

package csr

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// maxChain bounds a chain, in certificates, its leaf among them.
const maxChain = 8

// maxIssuer bounds an issuer's certificate that is fetched, in bytes.
const maxIssuer = 64 << 10

// WithChain is the certificate leaf with its chain: the certificates of others that lead from the
// leaf towards its root, in order, and without the root, which the API server has. It ends
// where others has no issuer.
func WithChain(leaf *x509.Certificate, others []*x509.Certificate) *Certificate {
	c := &Certificate{Leaf: leaf}
	for child := leaf; len(c.Chain) < maxChain-1; {
		i := slices.IndexFunc(others, func(x *x509.Certificate) bool {
			return bytes.Equal(x.RawSubject, child.RawIssuer) && child.CheckSignatureFrom(x) == nil
		})
		if i < 0 || bytes.Equal(others[i].RawSubject, others[i].RawIssuer) { // none, or the root
			break
		}
		child = others[i]
		c.Chain = append(c.Chain, child)
	}
	for _, x := range append([]*x509.Certificate{leaf}, c.Chain...) {
		c.PEM = append(c.PEM, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: x.Raw})...)
	}
	return c
}

// last is the end of the chain.
func (c *Certificate) last() *x509.Certificate {
	if n := len(c.Chain); n > 0 {
		return c.Chain[n-1]
	}
	return c.Leaf
}

// FetchChain extends the chain by the issuers whose addresses stand in its certificates (RFC
// 5280, 4.2.2.1: caIssuers). The addresses are plain http: what comes from there counts only if
// it has signed the certificate before it. others are issuers that are known already.
func FetchChain(ctx context.Context, c *Certificate, others []*x509.Certificate) (*Certificate, error) {
	for len(c.Chain) < maxChain-1 {
		end := c.last()
		if bytes.Equal(end.RawSubject, end.RawIssuer) || len(end.IssuingCertificateURL) == 0 {
			return c, nil
		}
		issuer, err := fetchIssuer(ctx, end)
		if err != nil {
			return nil, hint.With(fmt.Errorf("the issuer of %q: %w", end.Subject.String(), err),
				"name a file with the chain: --chain FILE")
		}
		if bytes.Equal(issuer.RawSubject, issuer.RawIssuer) {
			return c, nil
		}
		others = append(others, issuer)
		c = WithChain(c.Leaf, others)
	}
	return c, nil
}

// fetchIssuer fetches the certificate that has signed child, from the first address that has it.
func fetchIssuer(ctx context.Context, child *x509.Certificate) (*x509.Certificate, error) {
	var errs []error
	for _, address := range child.IssuingCertificateURL {
		issuer, err := fetchCertificate(ctx, address)
		if err == nil {
			err = child.CheckSignatureFrom(issuer)
		}
		if err == nil {
			return issuer, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
	}
	return nil, errors.Join(errs...)
}

func fetchCertificate(ctx context.Context, address string) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxIssuer))
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(b); block != nil && block.Type == certificateBlock {
		b = block.Bytes
	}
	return x509.ParseCertificate(b)
}

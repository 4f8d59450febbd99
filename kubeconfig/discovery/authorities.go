package discovery

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// maxCAs bounds the certificates of one bundle.
const maxCAs = 64

// authorities are the certificates of c's CAData; none for the system's.
func authorities(c cluster.Cluster) ([]*x509.Certificate, error) {
	if len(c.CAData) == 0 {
		return nil, nil
	}
	return parseCAs(c.CAData)
}

// parseCAs reads a PEM bundle of at least one certificate. Blocks of other
// types are passed over, but a private key is [ErrCredentials].
func parseCAs(bundle []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		switch {
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil, fmt.Errorf("%w: a private key among the certificate authorities", ErrCredentials)
		case block.Type != "CERTIFICATE":
			continue
		case len(certs) == maxCAs:
			return nil, fmt.Errorf("%w: more than %d certificate authorities", ErrDocument, maxCAs)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%w: certificate authority %d cannot be read: %w", ErrDocument, len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%w: it has no certificate authority", ErrDocument)
	}
	return certs, nil
}

// bundle is the PEM form of certs, each once.
func bundle(certs []*x509.Certificate) []byte {
	var out bytes.Buffer
	seen := map[string]bool{}
	for _, c := range certs {
		if seen[string(c.Raw)] {
			continue
		}
		seen[string(c.Raw)] = true
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return out.Bytes()
}

// pinned are those of certs whose key is among pins.
func pinned(certs []*x509.Certificate, pins []Pin) ([]*x509.Certificate, error) {
	var kept []*x509.Certificate
	var others []string
	for _, c := range certs {
		pin := PinOf(c)
		found := false
		for _, p := range pins {
			found = found || p == pin
		}
		if found {
			kept = append(kept, c)
		} else {
			others = append(others, pin.String())
		}
	}
	if len(kept) == 0 {
		return nil, hint.Withf(fmt.Errorf("%w: the cluster names %s", ErrNotPinned, strings.Join(others, ", ")),
			"compare the hash with one from a trusted place; do not take it from this message")
	}
	return kept, nil
}

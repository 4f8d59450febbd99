package clusterapi

import (
	"crypto/x509"
	"encoding/base64"
)

// Present are the annotations of a renewal that is filed with the certificate c, see
// [PresentCertificate].
func Present(c *x509.Certificate) map[string]string {
	return map[string]string{PresentCertificate: base64.StdEncoding.EncodeToString(c.Raw)}
}

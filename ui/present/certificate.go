package present

import (
	"crypto/x509"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/ui/text"
)

// Certificate is the name in a certificate: its common name, else its subject.
func Certificate(c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	if cn := strings.TrimSpace(c.Subject.CommonName); cn != "" {
		return text.Clean(cn)
	}
	if s := c.Subject.String(); s != "" {
		return text.Clean(s)
	}
	return "serial " + c.SerialNumber.Text(16)
}

// is left, 0 to 1.
func Expiry(c *x509.Certificate, now time.Time) (words string, left float64, l Level) {
	if c == nil {
		return "", 0, Quiet
	}
	life := c.NotAfter.Sub(c.NotBefore)
	rest := c.NotAfter.Sub(now)
	switch {
	case now.Before(c.NotBefore):
		return "not yet valid", 1, Warn
	case rest <= 0:
		return "expired", 0, Bad
	}
	left = min(float64(rest)/float64(max(life, 1)), 1)
	l = Good
	if left < 0.2 {
		l = Warn
	}
	return "in " + Span(rest), left, l
}

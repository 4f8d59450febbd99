package present

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
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

// Expiry says how long a certificate is still good, which share of its life is left, 0
// to 1, and how good that is. c may be nil.
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
	return "in " + span.Of(rest), left, l
}

// CertificateFacts are what a certificate says.
func CertificateFacts(c *x509.Certificate, now time.Time) []Fact {
	sum := sha256.Sum256(c.Raw)
	facts := append(identity(c),
		Fact{Name: "Serial", Value: c.SerialNumber.Text(16)},
		Fact{Name: "From", Value: Date(c.NotBefore)},
		until(c, now),
		Fact{Name: "Key", Value: string(hsm.AlgorithmOf(c.PublicKey))},
		Fact{Name: "Fingerprint", Value: hex.EncodeToString(sum[:])})
	if fp, err := hsm.Fingerprint(c.PublicKey); err == nil { // a key of a kind that is not known has none
		facts = append(facts, Fact{Name: "Key's", Value: fp})
	}
	return facts
}

// identity is for whom a certificate is and who says so: user and groups as
// Kubernetes reads them, the whole subject where that says more.
func identity(c *x509.Certificate) []Fact {
	user := strings.TrimSpace(c.Subject.CommonName)
	facts := []Fact{{Name: "User", Value: text.Clean(user)},
		{Name: "Groups", Value: text.Clean(strings.Join(c.Subject.Organization, ", "))}}
	if user == "" || len(c.Subject.Names) > 1+len(c.Subject.Organization) {
		facts = append(facts, Fact{Name: "Subject", Value: text.Clean(c.Subject.String())})
	}
	return append(facts, issuer(c))
}

func issuer(c *x509.Certificate) Fact {
	return Fact{Name: "Issuer", Value: text.Clean(c.Issuer.String())}
}

// holder is for whom a certificate is, in a line.
func holder(c *x509.Certificate) Fact {
	who := Certificate(c)
	if groups := c.Subject.Organization; len(groups) > 0 && c.Subject.CommonName != "" {
		who += " in " + text.Clean(strings.Join(groups, ", "))
	}
	return Fact{Name: "User", Value: who}
}

func until(c *x509.Certificate, now time.Time) Fact {
	words, _, l := Expiry(c, now)
	if l == Good {
		l = Quiet
	}
	return Fact{Name: "Until", Value: Date(c.NotAfter) + " (" + words + ")", Level: l}
}

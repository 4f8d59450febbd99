package present

import (
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/text"
)

// half is what there is of half a key, "" where there is a whole one, or none.
func half(s hsm.Slot) string {
	switch s.Half {
	case hsm.HalfPrivate:
		return "private key without its public key"
	case hsm.HalfPublic:
		return "public key without its private key"
	case hsm.HalfApart:
		return "private key and its public key, under different ids"
	}
	return ""
}

func lostCertificate(what string, c *x509.Certificate) string {
	if c == nil {
		return ""
	}
	return what + " for " + Certificate(c) + " until " + c.NotAfter.Local().Format(time.DateOnly)
}

// Loss says what is lost with slots of a token, a line each.
func Loss(l token.Loss) []string {
	lines := []string{fmt.Sprintf("Token %s, serial %s, holds:", Token(l.Token), text.Clean(l.Serial()))}
	for _, s := range l.Slots {
		if s.Key == nil && s.Certificate == nil && half(s) == "" {
			continue
		}
		what := half(s)
		if s.Key != nil {
			what = "key " + text.Clean(string(s.Key.Algorithm))
		}
		what = join(what, lostCertificate("certificate", s.Certificate))
		for _, c := range s.Older {
			what = join(what, lostCertificate("older certificate", c))
		}
		name := Slot(s)
		if id := ID(s); name != id { // labels need not differ
			name += " (" + id + ")"
		}
		lines = append(lines, "  "+name+": "+what)
	}
	switch {
	case len(lines) > 1:
	case !l.Token.Kind().Hides:
		lines = append(lines, "  no key and no certificate")
	default:
		lines = append(lines, "  no key and no certificate that can be seen without a PIN")
	}
	if len(l.Enrollments) > 0 {
		lines = append(lines, "Enrollments that could no longer sign in: "+text.Clean(strings.Join(l.Enrollments, ", ")))
	}
	return lines
}

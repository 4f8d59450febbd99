package loopback

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/kubehsm/kubehsm/plugin/home"
)

const (
	// caLife is long, since every kubeconfig entry has the CA.
	caLife = 10 * 365 * 24 * time.Hour
	// leafLife is that of a certificate, which the agent makes again twice a day.
	leafLife = 400 * 24 * time.Hour
	// backdated is how long before they are made certificates are valid: the clock may have been
	// ahead then, and set right since.
	backdated = 24 * time.Hour
)

// Names and addresses of a computer's loopback.
func loopbackNames() []string { return []string{"localhost"} }
func loopbackAddresses() []net.IP {
	return []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
}

// newCA makes the bridge's CA. Its certificates are good for loopback alone (RFC 5280, section
// 4.2.1.10): who copies its key can pass for no other server.
func newCA() (*Authority, error) {
	t := &x509.Certificate{PermittedDNSDomainsCritical: true, PermittedDNSDomains: loopbackNames()}
	for _, ip := range loopbackAddresses() {
		if v4 := ip.To4(); v4 != nil {
			ip = v4
		}
		bits := len(ip) * 8
		t.PermittedIPRanges = append(t.PermittedIPRanges, &net.IPNet{IP: ip, Mask: net.CIDRMask(bits, bits)})
	}
	return newAuthority("kubehsm bridge", caLife, t)
}

// ca reads the CA. Errors: [fs.ErrNotExist].
func (f folder) ca() (*Authority, error) {
	b, err := home.ReadFile(f.path("ca.pem"), home.MaxFile, nil)
	if err != nil {
		return nil, err
	}
	defer clear(b)
	a, err := parseAuthority(b)
	if err == nil && time.Now().After(a.Certificate.NotAfter) {
		err = errors.New("its CA expired on " + a.Certificate.NotAfter.Format(time.DateOnly))
	}
	if err != nil {
		return nil, f.damaged(err)
	}
	return a, nil
}

// Certificate makes a certificate of the bridge's CA. Its key is in memory alone. Errors:
// [fs.ErrNotExist] if nothing is set up.
func Certificate(d home.Dirs) (tls.Certificate, error) {
	ca, err := here(d).ca()
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	end := now.Add(leafLife)
	if end.After(ca.Certificate.NotAfter) {
		end = ca.Certificate.NotAfter
	}
	der, key, err := ca.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: now.Add(-backdated), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    loopbackNames(), IPAddresses: loopbackAddresses(),
	})
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate of the bridge: %w", err)
	}
	defer clear(key)
	return tls.X509KeyPair(CertificatePEM(der), key)
}

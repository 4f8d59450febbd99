package hsmtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/must"
)

// certify is [Certify] for tests.
func certify(t *testing.T, s crypto.Signer, name string) *x509.Certificate {
	t.Helper()
	cert, err := Certify(s, name)
	if err != nil {
		t.Fatalf("certificate for %s: %v", name, err)
	}
	return cert
}

// Certify makes a self-signed certificate with the key of s, for clients and
// for the server "hsmtest", valid from an hour ago for two hours.
func Certify(s crypto.Signer, name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: []string{"hsmtest"}},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"hsmtest"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, s.Public(), s)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// testTLS signs real client handshakes with the token.
func testTLS(t *testing.T, b *bench) {
	tok := b.open(t)
	for _, a := range b.Algorithms {
		slot := b.generate(t, tok, a)
		b.connect(t, slot, b.signer(t, tok, slot, b.typing(t)))
	}
}

// connect has the key sign handshakes of each version.
func (b *bench) connect(t *testing.T, slot hsm.Slot, sign crypto.Signer) {
	t.Helper()
	a := slot.Key.Algorithm
	if b.NoPSS && a.RSABits() > 0 {
		return
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	serverCert := certify(t, serverKey, "server")
	cert := certify(t, sign, "client")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(fmt.Sprintf("%s/%s", a, tls.VersionName(version)), func(t *testing.T) {
			server := &tls.Config{
				Certificates: []tls.Certificate{{Certificate: [][]byte{serverCert.Raw}, PrivateKey: serverKey}},
				ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool(cert),
				MinVersion: version, MaxVersion: version,
			}
			client := &tls.Config{
				Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: sign}},
				RootCAs:      pool(serverCert), ServerName: "hsmtest",
				MinVersion: version, MaxVersion: version,
			}
			got := handshake(t, client, server)
			if !hsm.SameKey(got, slot.Key.Public) {
				t.Error("the server saw another key")
			}
		})
	}
}

func pool(c *x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(c)
	return p
}

// handshake connects client and server and returns the client's key as the
// server saw it.
func handshake(t *testing.T, client, server *tls.Config) crypto.PublicKey {
	t.Helper()
	a, z := net.Pipe()
	defer a.Close()
	defer z.Close()
	done := make(chan error, 1)
	c, s := tls.Client(a, client), tls.Server(z, server)
	go func() {
		err := s.HandshakeContext(t.Context())
		if err == nil {
			_, err = s.Write([]byte("!")) // in TLS 1.3 the client learns of a refusal here
		} else {
			z.Close()
		}
		done <- err
	}()
	err := c.HandshakeContext(t.Context())
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	} else {
		a.Close()
	}
	if serr := <-done; serr != nil || err != nil {
		t.Fatalf("handshake: client %v, server %v", err, serr)
	}
	return s.ConnectionState().PeerCertificates[0].PublicKey
}

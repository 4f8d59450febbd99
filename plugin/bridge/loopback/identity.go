package loopback

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// The life of a certificate of the bridge. Its authority's key is gone at once, so
// nothing else can ever be vouched for.
const (
	identityLife = 400 * 24 * time.Hour
	// nextBefore is how long before its end the next one is made, so that kubeconfig
	// entries get that too whenever they are written: a renewed certificate does it.
	nextBefore = identityLife / 2
	// shownUntil is how long before its end a certificate makes way for the next.
	shownUntil = 24 * time.Hour
)

// format is that of a machine's record.
var format = record.Format{Version: 1}

// machineRecord is what the folder has of one machine: the identity that the bridge shows
// there and, in good time, the next.
type machineRecord struct {
	Identities []identity `json:"identities"`
}

// identity is a server certificate with its key.
type identity struct {
	// Authority vouches for the certificate; both are DER.
	Authority   []byte `json:"authority"`
	Certificate []byte `json:"certificate"`
	// Key is an ECPrivateKey of SEC 1, as [machine.seal] makes it.
	Key []byte `json:"key"`
}

// newIdentity makes an authority, its one certificate, and forgets the authority's key.
func (m machine) newIdentity() (identity, error) {
	ca, err := NewAuthority("kubehsm bridge", identityLife)
	if err != nil {
		return identity{}, err
	}
	der, key, err := ca.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "127.0.0.1"},
		NotBefore:   ca.Certificate.NotBefore,
		NotAfter:    ca.Certificate.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	})
	if err != nil {
		return identity{}, err
	}
	defer clear(key)
	return m.sealed(ca.Certificate.Raw, der, key)
}

// sealed is the identity of a certificate and its key, which is PEM.
func (m machine) sealed(authority, der, keyPEM []byte) (identity, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return identity{}, errors.New("the key is not PEM")
	}
	defer clear(block.Bytes)
	sealed, err := m.seal(block.Bytes, sum(der))
	return identity{Authority: authority, Certificate: der, Key: sealed}, err
}

func sum(der []byte) []byte {
	s := sha256.Sum256(der)
	return s[:]
}

// pair is what TLS wants.
func (i identity) pair(m machine) (tls.Certificate, error) {
	der, err := m.open(i.Key, sum(i.Certificate))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the key cannot be unsealed: %w", err)
	}
	defer clear(der)
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(i.Certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return tls.Certificate{}, errors.New("the key is not that of the certificate")
	}
	return tls.Certificate{Certificate: [][]byte{i.Certificate}, PrivateKey: key, Leaf: leaf}, nil
}

// ends is when the identity ends, the zero time if that cannot be read.
func (i identity) ends() time.Time {
	leaf, err := x509.ParseCertificate(i.Certificate)
	if err != nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

// read reads the record of the machine that is called label. Errors: [fs.ErrNotExist].
func (f folder) read(label string) (machineRecord, error) {
	var r machineRecord
	path := f.record(label)
	b, err := home.ReadFile(path, home.MaxFile, nil)
	if err != nil {
		return r, err
	}
	if err := format.Decode(b, &r); err != nil {
		return r, damagedRecord(path, err)
	}
	if len(r.Identities) == 0 {
		return r, damagedRecord(path, errors.New("it has no certificate"))
	}
	for _, i := range r.Identities {
		if i.ends().IsZero() {
			return r, damagedRecord(path, errors.New("a certificate cannot be read"))
		}
	}
	return r, nil
}

// advance has the record show what it is to show at a time, and tells whether that
// changed it: an identity that ends makes way for the next, which is made in good time.
func (r *machineRecord) advance(m machine, now time.Time) (changed bool, err error) {
	for len(r.Identities) > 1 && now.After(r.Identities[0].ends().Add(-shownUntil)) {
		r.Identities, changed = r.Identities[1:], true
	}
	first := r.Identities[0]
	if now.After(first.ends()) { // all trust in the chain has ended: begin a new one
		fresh, err := m.newIdentity()
		r.Identities = []identity{fresh}
		return true, err
	}
	if len(r.Identities) == 1 && now.After(first.ends().Add(-nextBefore)) {
		next, err := m.newIdentity()
		r.Identities = append(r.Identities, next)
		return true, err
	}
	return changed, nil
}

// authorities are the record's, as DER, but for those that have ended.
func (r machineRecord) authorities(now time.Time) [][]byte {
	var all [][]byte
	for _, i := range r.Identities {
		if now.Before(i.ends()) {
			all = append(all, i.Authority)
		}
	}
	return all
}

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	leafLifetime = 365 * 24 * time.Hour
	caLifetime   = 10 * leafLifetime
	// backdate is what a certificate starts before now, for clocks that differ.
	backdate = 5 * time.Minute
)

// authority is a certificate authority whose key and certificate lie in files.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string // the certificate, PEM
	keyFile     string
}

// loadAuthority reads dir/name.crt and dir/name.key, or makes them.
func loadAuthority(dir, name, commonName string) (*authority, error) {
	a := &authority{file: filepath.Join(dir, name+".crt"), keyFile: filepath.Join(dir, name+".key")}
	key, err := loadKey(a.keyFile)
	if err != nil {
		return nil, err
	}
	a.key = key
	if der, err := readPEM(a.file, "CERTIFICATE"); err == nil {
		a.certificate, err = x509.ParseCertificate(der)
		return a, err
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             time.Now().Add(-backdate),
		NotAfter:              time.Now().Add(caLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	a.certificate = template // self-signed
	der, err := a.sign(template, key.Public())
	if err != nil {
		return nil, err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, writePEM(a.file, "CERTIFICATE", der)
}

// sign completes template with a serial number and signs it for pub.
func (a *authority) sign(template *x509.Certificate, pub crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %q: %w", template.Subject.String(), err)
	}
	return der, nil
}

// leaf is a key with its certificate, in files.
type leaf struct{ cert, key string }

func leafIn(dir, name string) leaf {
	return leaf{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key")}
}

// issue makes l's certificate, for a year, and its key if that is not there.
func (a *authority) issue(l leaf, template *x509.Certificate) error {
	key, err := loadKey(l.key)
	if err != nil {
		return err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-backdate), time.Now().Add(leafLifetime)
	der, err := a.sign(template, key.Public())
	if err != nil {
		return err
	}
	return writePEM(l.cert, "CERTIFICATE", der)
}

// clientTemplate is a client certificate's: the user is its CN, the groups its O.
func clientTemplate(user string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: user, Organization: groups},
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// serverTemplate is a server certificate's for loopback and the names given.
func serverTemplate(commonName string, names ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:              append([]string{"localhost"}, names...),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
}

func apiServerTemplate() *x509.Certificate {
	return serverTemplate("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
}

// etcdTemplate is [serverTemplate] for a client too: etcd's members, and its
// gateway within one, dial each other with the server's certificate.
func etcdTemplate() *x509.Certificate {
	t := serverTemplate("etcd")
	t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	return t
}

// pki is all the keys of a cluster.
type pki struct {
	ca     *authority // clients and the API server
	etcdCA *authority // etcd trusts only the API server, not every client
	nextCA *authority // will take the place of ca: see [AddedAPIServer]

	apiServer, nextAPIServer     leaf
	etcd, etcdClient             leaf
	manager, managerClient       leaf
	kubelet, kubeletClient       leaf
	admin                        leaf
	accountKey, accountPublicKey string // service-account tokens
}

// openPKI makes or reads the authorities in dir.
func openPKI(dir string) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &pki{
		accountKey:       filepath.Join(dir, "service-account.key"),
		accountPublicKey: filepath.Join(dir, "service-account.pub"),
		apiServer:        leafIn(dir, "kube-apiserver"),
		nextAPIServer:    leafIn(dir, "kube-apiserver-next"),
		manager:          leafIn(dir, "kube-controller-manager"),
		managerClient:    leafIn(dir, "kube-controller-manager-client"),
		kubelet:          leafIn(dir, "kubelet"),
		kubeletClient:    leafIn(dir, "kubelet-client"),
		admin:            leafIn(dir, "admin"),
		etcd:             leafIn(dir, "etcd"),
		etcdClient:       leafIn(dir, "etcd-client"),
	}
	var err error
	if p.ca, err = loadAuthority(dir, "ca", "kubehsm-test-ca"); err != nil {
		return nil, err
	}
	if p.nextCA, err = loadAuthority(dir, "next-ca", "kubehsm-test-next-ca"); err != nil {
		return nil, err
	}
	p.etcdCA, err = loadAuthority(dir, "etcd-ca", "kubehsm-test-etcd-ca")
	return p, err
}

// issueAll makes the service-account key and issues every certificate anew.
func (p *pki) issueAll() error {
	for _, c := range []struct {
		by       *authority
		leaf     leaf
		template *x509.Certificate
	}{
		{p.ca, p.apiServer, apiServerTemplate()},
		{p.nextCA, p.nextAPIServer, apiServerTemplate()},
		{p.ca, p.manager, serverTemplate("kube-controller-manager")},
		{p.ca, p.managerClient, clientTemplate("system:kube-controller-manager")},
		{p.ca, p.kubelet, serverTemplate("kubelet")},
		{p.ca, p.kubeletClient, clientTemplate(kubeletClient)},
		{p.ca, p.admin, clientTemplate("test-admin", "system:masters")},
		{p.etcdCA, p.etcd, etcdTemplate()},
		{p.etcdCA, p.etcdClient, clientTemplate("kube-apiserver")},
	} {
		if err := c.by.issue(c.leaf, c.template); err != nil {
			return err
		}
	}
	key, err := loadKey(p.accountKey)
	if err != nil {
		return err
	}
	// The API server verifies with a public key only; it refuses a PKCS#8 private one there.
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(p.accountPublicKey, "PUBLIC KEY", der)
}

// loadKey reads the P-256 key in file, or makes it.
func loadKey(file string) (*ecdsa.PrivateKey, error) {
	der, err := readPEM(file, "PRIVATE KEY")
	if err == nil {
		key, err := x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if key, ok := key.(*ecdsa.PrivateKey); ok {
			return key, nil
		}
		return nil, fmt.Errorf("%s: not an ECDSA key", file)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return nil, err
	}
	return key, writePEM(file, "PRIVATE KEY", der)
}

func readPEM(file, kind string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s: no PEM block of type %q", file, kind)
	}
	return block.Bytes, nil
}

// writePEM replaces file by one PEM block, readable by its owner only.
func writePEM(file, kind string, der []byte) error {
	return replaceFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

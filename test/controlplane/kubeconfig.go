package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// ContextName is the context (and cluster) in the kubeconfig files that
// [Cluster.KubeconfigFor] writes.
const ContextName = "test"

// Server is the API server's URL.
func (c *Cluster) Server() string { return loopback(c.state.Ports.API) }

// CAFile is the file of the certificate authority (PEM) that signs the API
// server's certificate and that the API server trusts for clients.
func (c *Cluster) CAFile() string { return c.pki.ca.file }

// AdminKubeconfig is a kubeconfig file of a user in system:masters.
func (c *Cluster) AdminKubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

func (c *Cluster) managerKubeconfig() string { return filepath.Join(c.dir, "manager.kubeconfig") }

// KubeconfigFor writes a kubeconfig file for user in groups, who authenticates
// with a client certificate valid for a year, and returns its path. The context
// is [ContextName].
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	digest := sha256.Sum256([]byte(user + "\x00" + strings.Join(groups, "\x00")))
	file := filepath.Join(c.dir, "kubeconfigs", hex.EncodeToString(digest[:8])+".kubeconfig")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	return file, c.WriteKubeconfig(file, ContextName, user, groups...)
}

// WriteKubeconfig writes file with the one context named context, for user in
// groups with a new client certificate valid for a year. An existing file is
// replaced.
func (c *Cluster) WriteKubeconfig(file, context, user string, groups ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := c.SignClient(key.Public(), user, groups, time.Now().Add(-backdate), time.Now().Add(leafLifetime))
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return c.writeKubeconfig(file, context, user,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// SignClient has the cluster's authority certify pub (of any type) as a client,
// user in groups, valid in the time given, which may lie in the past. It
// returns the certificate's DER form.
func (c *Cluster) SignClient(pub crypto.PublicKey, user string, groups []string, notBefore, notAfter time.Time) ([]byte,
	error) {
	template := clientTemplate(user, groups...)
	template.NotBefore, template.NotAfter = notBefore, notAfter
	return c.pki.ca.sign(template, pub)
}

// writeLeafKubeconfig is writeKubeconfig with a key of the pki.
func (c *Cluster) writeLeafKubeconfig(file, user string, l leaf) error {
	cert, err := os.ReadFile(l.cert)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(l.key)
	if err != nil {
		return err
	}
	return c.writeKubeconfig(file, ContextName, user, cert, key)
}

func (c *Cluster) writeKubeconfig(file, context, user string, certPEM, keyPEM []byte) error {
	caPEM, err := os.ReadFile(c.pki.ca.file)
	if err != nil {
		return err
	}
	config := api.NewConfig()
	config.Clusters[context] = &api.Cluster{Server: c.Server(), CertificateAuthorityData: caPEM}
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	config.Contexts[context] = &api.Context{Cluster: context, AuthInfo: user}
	config.CurrentContext = context
	b, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write kubeconfig for %s: %w", user, err)
	}
	return replaceFile(file, b)
}

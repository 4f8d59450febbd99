//go:build linux

package externalsigner

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestEnrolled: an enrollment's entry for the auth provider; with its key unlocked
// in the agent nobody is asked for anything.
func TestEnrolled(t *testing.T) {
	p := newPerson(t)
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	must.OK(t, p.Enroll(t.Context()))
	before, err := os.ReadFile(p.Kubeconfig)
	must.OK(t, err)
	res := p.other(t, "kubeconfig", "set", lab.Enrolled, "--mode", "external-signer", "--yes")
	if res.Code != 0 || !strings.Contains(res.Stderr, "+      name: externalSigner") ||
		!strings.Contains(res.Stderr, "pathExec: "+p.Binary) {
		t.Fatalf("kubeconfig set: %s", res)
	}
	after, err := os.ReadFile(p.Kubeconfig)
	if err != nil || strings.Contains(string(after), lab.PIN) ||
		!strings.Contains(string(after), "server: "+p.Cluster.Server()) {
		t.Errorf("the kubeconfig: %v\n%s", err, after)
	}
	if res := p.other(t, "kubeconfig", "list"); !strings.Contains(res.Stdout, "token, patched") {
		t.Errorf("kubeconfig list: %s", res)
	}
	whoami := []string{"auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"}
	if res := p.kubectl(whoami...); res.Code != 0 || res.Stdout != lab.User || res.Stderr != "" {
		t.Errorf("with the key unlocked in the agent: %s", res)
	}
	if res := p.other(t, "audit", "-o", "json"); !strings.Contains(res.Stdout, "external-signer") ||
		!strings.Contains(res.Stdout, `"kubectl-externalsigner"`) {
		t.Errorf("audit: %s", res)
	}
	// kubehsm itself, which has no such provider, goes by the bridge.
	if res := p.other(t, "csr", "list"); !strings.Contains(res.Stderr, lab.User+" is not allowed to") {
		t.Errorf("csr list: %s", res)
	}
	// A certificate of an authority below the cluster's: the answers bring the issuer.
	p.certifyBelow()
	if res := p.kubectl(whoami...); res.Code != 0 || res.Stdout != lab.User {
		t.Errorf("with an intermediate authority: %s", res)
	}
	if res := p.other(t, "agent", "lock"); res.Code != 0 {
		t.Fatal(res)
	}
	if res := p.kubectl(whoami...); res.Code != 1 || !strings.Contains(res.Stderr, "no terminal to ask on") ||
		!strings.Contains(res.Stderr, "hint: run `kubehsm unlock` first") {
		t.Errorf("with the key locked in the agent: %s", res)
	}
	if res := p.other(t, "kubeconfig", "undo", "--yes"); res.Code != 0 {
		t.Errorf("undo: %s", res)
	}
	if b, err := os.ReadFile(p.Kubeconfig); err != nil || string(b) != string(before) {
		t.Errorf("undone, it is: %v\n%s", err, b)
	}
	if res := p.other(t, "kubeconfig", "set", lab.Enrolled, "--mode", "tunnel"); res.Code != 2 ||
		!strings.Contains(res.Stderr, "error: --mode") {
		t.Errorf("an unknown mode: %s", res)
	}
}

// certifyBelow has the enrollment's key certified by an authority that the cluster's own
// certified, and that the cluster does not know.
func (p *person) certifyBelow() {
	p.t.Helper()
	must := func(err error) {
		p.t.Helper()
		must.OK(p.t, err)
	}
	dirs, err := home.FromEnv(func(name string) string {
		if name == home.EnvHome {
			return p.Home
		}
		return ""
	})
	must(err)
	store := enrollment.NewStore(dirs)
	e, err := store.Load(lab.Enrolled)
	must(err)
	chain, err := store.Certificate(e)
	must(err)
	root, err := tls.LoadX509KeyPair(p.Cluster.CAFile(), strings.TrimSuffix(p.Cluster.CAFile(), ".crt")+".key")
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	middle := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "intermediate"},
		NotBefore: chain[0].NotBefore, NotAfter: chain[0].NotAfter, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	middleDER, err := x509.CreateCertificate(rand.Reader, middle, root.Leaf, key.Public(), root.PrivateKey)
	must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: chain[0].Subject, NotBefore: chain[0].NotBefore,
		NotAfter: chain[0].NotAfter, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: chain[0].ExtKeyUsage}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, middle, chain[0].PublicKey, key)
	must(err)
	chain, err = x509.ParseCertificates(slices.Concat(leafDER, middleDER))
	must(err)
	must(store.SaveCertificate(e, chain))
}

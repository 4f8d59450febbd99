// Package screentest gives the tests of screens a world to work in: use cases as
// they are, over fake tokens, a kubeconfig and folders of the test's own, and the
// root that shows the screen. It fakes nothing itself.
package screentest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// World is what a screen's test works in. No token is plugged in, and nothing
// answers at the clusters of its kubeconfig, until the test changes that.
type World struct {
	T      testing.TB
	Env    *env.Env
	Cards  *hsmtest.Fake // PIV
	Tokens *hsmtest.Fake // PKCS#11
}

// New returns a world whose kubeconfig has the contexts "trial-admin", the current
// one, and "staging".
func New(t testing.TB) *World {
	t.Helper()
	root := filepath.Join(folder(t), "home")
	must.OK(t, os.Mkdir(root, 0o700))
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: root}[k] })
	must.OK(t, err)
	w := &World{T: t, Cards: hsmtest.NewFake(hsm.SchemePIV), Tokens: hsmtest.NewFake(hsm.SchemePKCS11)}
	w.Env = &env.Env{Dirs: dirs, Drivers: hsm.Drivers{w.Cards, w.Tokens},
		Executable: "/usr/local/bin/kubehsm", Kubeconfig: filepath.Join(filepath.Dir(root), "kubeconfig")}
	w.point("https://127.0.0.1:1", nil)
	return w
}

// Cluster has an API server answer for the cluster of the current context, which
// takes everybody for user.
func (w *World) Cluster(user string, groups ...string) *flowtest.Server {
	w.T.Helper()
	server := flowtest.New(w.T, user, groups...)
	w.point(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return server
}

// point writes the kubeconfig.
func (w *World) point(server string, ca []byte) {
	w.T.Helper()
	type object = map[string]any
	cluster := func(server string) object { return object{"server": server, "certificate-authority-data": ca} }
	named := func(name, kind string, o any) object { return object{"name": name, kind: o} }
	b, err := yaml.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "trial-admin",
		"clusters": []object{named("trial", "cluster", cluster(server)),
			named("staging", "cluster", cluster("https://127.0.0.1:2"))},
		"users": []object{named("admin", "user", object{"token": "geheim"}),
			named("jane", "user", object{"token": "geheim"})},
		"contexts": []object{
			named("trial-admin", "context", object{"cluster": "trial", "user": "admin"}),
			named("staging", "context", object{"cluster": "staging", "user": "jane"}),
		},
	})
	if err == nil {
		err = os.WriteFile(w.Env.Kubeconfig, b, 0o600)
	}
	must.OK(w.T, err)
}

// Kubeconfig is what the kubeconfig says now.
func (w *World) Kubeconfig() string {
	w.T.Helper()
	b, err := os.ReadFile(w.Env.Kubeconfig)
	must.OK(w.T, err)
	return string(b)
}

// Generate makes a key on a token, as its holder does.
func (w *World) Generate(tok *hsmtest.FakeToken, o hsm.GenerateOptions) hsm.Slot {
	w.T.Helper()
	var made hsm.Slot
	w.open(tok, func(ctx context.Context, t hsm.Token) (err error) {
		made, err = t.Generate(ctx, o, hsmtest.Typing(w.T, tok.PIN()))
		return err
	})
	return made
}

// Certify puts a certificate beside a key that is good whatever the real time is.
func (w *World) Certify(tok *hsmtest.FakeToken, s hsm.Slot, user string, groups ...string) *x509.Certificate {
	w.T.Helper()
	return w.CertifyFor(tok, s, tuitest.Now().AddDate(-9, 0, 0), tuitest.Now().AddDate(90, 0, 0), user, groups...)
}

// CertifyFor is Certify with a beginning and an end. The authority is the same in every
// test.
func (w *World) CertifyFor(tok *hsmtest.FakeToken, s hsm.Slot, from, until time.Time, user string,
	groups ...string) *x509.Certificate {
	w.T.Helper()
	authority := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(42), Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: from, NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template,
		&x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes"}}, s.Key.Public, authority)
	must.OK(w.T, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(w.T, err)
	w.open(tok, func(ctx context.Context, t hsm.Token) error {
		return t.StoreCertificate(ctx, s.URI, cert, hsmtest.Typing(w.T, tok.PIN()))
	})
	return cert
}

// open opens a token for f, and leaves it locked.
func (w *World) open(tok *hsmtest.FakeToken, f func(context.Context, hsm.Token) error) {
	w.T.Helper()
	t, err := w.Env.Drivers.Open(context.Background(), tok.Info().URI())
	must.OK(w.T, err)
	must.OK(w.T, errors.Join(f(context.Background(), t), t.Lock(), t.Close()))
}

// Signed returns e with its record signed by its key, which is on a token.
func (w *World) Signed(e enrollment.Enrollment) enrollment.Enrollment {
	w.T.Helper()
	for _, fake := range []*hsmtest.Fake{w.Cards, w.Tokens} {
		if key := fake.Key(e.KeyHash); key != nil {
			e, err := e.SignedBy(key, tuitest.Now())
			must.OK(w.T, err)
			return e
		}
	}
	w.T.Fatalf("the key of %s is on no token", e.Name)
	return e
}

// Enroll records an enrollment of a key, with the certificate that is beside it, and
// writes its context into the kubeconfig.
func (w *World) Enroll(name string, key hsm.Slot, cert *x509.Certificate) enrollment.Enrollment {
	w.T.Helper()
	hash, err := hsm.Fingerprint(key.Key.Public)
	must.OK(w.T, err)
	e := enrollment.Enrollment{Name: name, Key: key.URI, KeyHash: hash, User: cert.Subject.CommonName,
		Groups:  cert.Subject.Organization,
		Context: "trial-admin", Created: tuitest.Now()}
	e.Cluster.Server = "https://127.0.0.1:1"
	store := w.Env.Enrollments()
	e = w.Signed(e)
	if err := errors.Join(w.Env.Dirs.Prepare(), store.Save(e),
		store.SaveCertificate(e, []*x509.Certificate{cert})); err != nil {
		w.T.Fatal(err)
	}
	change, err := contexts.New(w.Env).Set(context.Background(), name, false, true)
	if err == nil {
		err = change.Apply(context.Background())
	}
	must.OK(w.T, err)
	return e
}

// Slots is what is on a token now.
func (w *World) Slots(tok *hsmtest.FakeToken) map[string]hsm.Slot {
	w.T.Helper()
	all := map[string]hsm.Slot{}
	w.open(tok, func(ctx context.Context, t hsm.Token) error {
		slots, err := t.Slots(ctx, nil)
		for _, s := range slots {
			all[s.ID] = s
		}
		return err
	})
	return all
}

// HasKubeconfig wants the kubeconfig to hold a text.
func (w *World) HasKubeconfig(want string) {
	w.T.Helper()
	if !strings.Contains(w.Kubeconfig(), want) {
		w.T.Errorf("the kubeconfig does not hold %s:\n%s", want, w.Kubeconfig())
	}
}

// LacksKubeconfig wants the kubeconfig not to hold a text.
func (w *World) LacksKubeconfig(unwanted string) {
	w.T.Helper()
	if strings.Contains(w.Kubeconfig(), unwanted) {
		w.T.Errorf("the kubeconfig holds %s:\n%s", unwanted, w.Kubeconfig())
	}
}

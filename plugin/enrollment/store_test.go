package enrollment

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/hsm/shared/record"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

func testStore(t *testing.T) (Store, home.Dirs) {
	t.Helper()
	dir := t.TempDir()
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	check(t, err)
	return NewStore(d), d
}

func certificate(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	check(t, err)
	c, err := x509.ParseCertificate(der)
	check(t, err)
	return c
}

func sample(t *testing.T, cert *x509.Certificate) Enrollment {
	t.Helper()
	hash, err := hsm.Fingerprint(cert.PublicKey)
	check(t, err)
	key, err := hsm.ParseURI("pkcs11:token=My%20token;serial=1;object=key;id=%01?module-path=/usr/lib/p11.so")
	check(t, err)
	return Enrollment{Name: "prod-eu.1", Key: key, KeyHash: hash, User: "alice", Groups: []string{"dev"},
		Policy: consent.Rules, Rules: []consent.Rule{{Verbs: []string{"delete"}, Namespaces: []string{"prod"}}},
		Cluster: cluster.Cluster{Server: "https://api.example:6443/k8s", CAData: EncodeChain([]*x509.Certificate{cert}),
			TLSServerName: "kubernetes", ProxyURL: "http://p:1"},
		Context: "admin@prod", Namespace: "web", Kubeconfig: "/home/a/.kube/config",
		Created: time.Now().UTC().Truncate(time.Second)}
}

// TestGolden: the record of an enrollment is these bytes, and reading them gives what was
// written.
func TestGolden(t *testing.T) {
	ca := EncodeChain([]*x509.Certificate{certificate(t, "ca")})
	e := Enrollment{Name: "prod", KeyHash: strings.Repeat("0", 64), User: "jane",
		Key:     hsm.URI{Scheme: hsm.SchemePKCS11, Token: "trial"},
		Created: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	for at, want := range map[*cluster.Cluster]string{
		{Server: "https://10.0.0.1:6443/k8s", CAData: ca, TLSServerName: "kubernetes", ProxyURL: "socks5://p:1"}: `
    "server": "https://10.0.0.1:6443/k8s",
    "caData": "` + base64.StdEncoding.EncodeToString(ca) + `",
    "tlsServerName": "kubernetes",
    "proxyURL": "socks5://p:1"`,
		{Server: "https://10.0.0.1:6443", InsecureSkipTLSVerify: true, Direct: true, DisableCompression: true}: `
    "server": "https://10.0.0.1:6443",
    "insecureSkipTLSVerify": true,
    "direct": true,
    "disableCompression": true`,
	} {
		e.Cluster = *at
		s, d := testStore(t)
		check(t, s.Save(e))
		got, err := os.ReadFile(filepath.Join(d.State, "enrollments", "prod.json"))
		check(t, err)
		want := `{
  "name": "prod",
  "cluster": {` + want + `
  },
  "key": "pkcs11:token=trial",
  "keyHash": "` + e.KeyHash + `",
  "user": "jane",
  "created": "2026-11-20T08:00:00Z"
}
`
		if string(got) != want {
			t.Errorf("written\n%s\nwant\n%s", got, want)
		}
		if back, err := s.Load("prod"); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("read %+v, %v\nwant %+v", back, err, e)
		}
	}
}

func TestStore(t *testing.T) {
	s, d := testStore(t)
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	leaf, ca := certificate(t, "alice"), certificate(t, "ca")
	e := sample(t, leaf)
	check(t, s.Save(e))
	if _, err := s.Certificate(e); !errors.Is(err, hsm.ErrNoCertificate) || !strings.Contains(hint.Of(err), e.Name) {
		t.Fatal(err)
	}
	v1 := s.Version(e)
	check(t, s.SaveCertificate(e, []*x509.Certificate{leaf, ca}))
	v2 := s.Version(e)
	check(t, s.Save(e))
	if v3 := s.Version(e); v1 == v2 || v2 == v3 || v3 != s.Version(e) {
		t.Errorf("versions %q %q %q", v1, v2, v3)
	}
	got, err := s.Load(e.Name)
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Fatalf("%+v\n%+v\n%v", got, e, err)
	}
	chain, err := s.Certificate(got)
	if err != nil || len(chain) != 2 || !chain[0].Equal(leaf) || !chain[1].Equal(ca) {
		t.Fatal(chain, err)
	}
	check(t, filepath.WalkDir(d.State, func(path string, entry os.DirEntry, err error) error {
		check(t, err)
		info, err := entry.Info()
		check(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return nil
	}))
	if e.Host() != "api.example:6443" {
		t.Error(e.Host())
	}
	check(t, s.Delete(e.Name))
	if _, err := s.Load(e.Name); !errors.Is(err, ErrUnknown) || !strings.Contains(hint.Of(err), "kubehsm enroll") {
		t.Error(err)
	}
	if _, err := s.Certificate(e); !errors.Is(err, hsm.ErrNoCertificate) {
		t.Error(err)
	}
	if err := s.Delete(e.Name); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	s, d := testStore(t)
	leaf := certificate(t, "alice")
	for what, spoil := range map[string]func(*Enrollment){
		"name with a slash":             func(e *Enrollment) { e.Name = "../x" },
		"long name":                     func(e *Enrollment) { e.Name = strings.Repeat("a", 64) },
		"upper case":                    func(e *Enrollment) { e.Name = "Prod" },
		"plain http":                    func(e *Enrollment) { e.Cluster.Server = "http://x" },
		"password in URL":               func(e *Enrollment) { e.Cluster.Server = "https://a:b@x" },
		"query in URL":                  func(e *Enrollment) { e.Cluster.Server = "https://x?y" },
		"bad CA":                        func(e *Enrollment) { e.Cluster.CAData = []byte("x") },
		"CA that is not to be verified": func(e *Enrollment) { e.Cluster.InsecureSkipTLSVerify = true },
		"bad proxy":                     func(e *Enrollment) { e.Cluster.ProxyURL = "ftp://x" },
		"bad hash":                      func(e *Enrollment) { e.KeyHash = "../../x" },
		"no key":                        func(e *Enrollment) { e.Key = hsm.URI{} },
		"bad policy":                    func(e *Enrollment) { e.Policy, e.Rules = "sometimes", nil },
		"rules for no use":              func(e *Enrollment) { e.Policy = consent.Writes },
		"no rules":                      func(e *Enrollment) { e.Rules = nil },
		"bad rule":                      func(e *Enrollment) { e.Rules[0].Verbs[0] = "destroy" },
	} {
		e := sample(t, leaf)
		spoil(&e)
		if err := s.Save(e); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if err := s.SaveCertificate(e, []*x509.Certificate{leaf}); err == nil {
			t.Errorf("%s: certificate saved", what)
		}
	}
	e := sample(t, leaf)
	for _, chain := range [][]*x509.Certificate{nil, {certificate(t, "bob"), leaf}} {
		if err := s.SaveCertificate(e, chain); err == nil {
			t.Error("saved a certificate of another key, or none")
		}
	}
	if _, err := s.Load("../../etc/passwd"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := s.Delete("*"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	// Files that were tampered with, or are of a later version.
	check(t, s.Save(e))
	path := filepath.Join(d.State, "enrollments", e.Name+".json")
	good, err := os.ReadFile(path)
	check(t, err)
	for what, b := range map[string]string{
		"unknown field": strings.Replace(string(good), `"name"`, `"mustAsk": true, "name"`, 1),
		"other name":    strings.Replace(string(good), `"prod-eu.1"`, `"prod"`, 1),
		"cut off":       string(good[:len(good)/2]),
		"two":           string(good) + "{}",
	} {
		check(t, os.WriteFile(path, []byte(b), 0o600))
		if _, err := s.Load(e.Name); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if all, err := s.List(); err == nil || len(all) != 0 {
			t.Errorf("%s: listed %v", what, all)
		}
	}
	check(t, os.WriteFile(path, good, 0o600))
	check(t, os.Chmod(path, 0o666))
	if _, err := s.Load(e.Name); !errors.Is(err, home.ErrUnsafe) {
		t.Error(err)
	}
}

// What was joined knows no context that it could be enrolled from again.
func TestCommand(t *testing.T) {
	for want, e := range map[string]Enrollment{
		"kubehsm enroll --name prod": {Name: "prod", Context: "admin"},
		"kubehsm join --name prod":   {Name: "prod"},
	} {
		if got := e.Command(); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}

// TestRestart: the command that enrolls anew names the source context, whom the certificate is for,
// and the token or key, each as one word for a shell. A join takes them from a ticket.
func TestRestart(t *testing.T) {
	key := hsm.URI{Scheme: hsm.SchemePIV, Serial: "7", Slot: "9a"}
	for want, c := range map[string]struct {
		of Enrollment
		on hsm.URI
	}{
		`kubehsm enroll --name prod --restart --key 'piv:serial=7;slot=9a' --context home --user jane --group dev --group 'a b'`: {
			Enrollment{Name: "prod", Context: "home", User: "jane", Groups: []string{"dev", "a b"}}, key},
		`kubehsm enroll --name prod --restart --token piv:serial=7 --context 'it'\''s' --user 'jane; reboot'`: {
			Enrollment{Name: "prod", Context: "it's", User: "jane; reboot"}, key.TokenOnly()},
		`kubehsm enroll --name prod --restart --context home --use-certificate`: {
			Enrollment{Name: "prod", Context: "home", User: "jane", Issuer: "CN=x"}, hsm.URI{}},
		`kubehsm join --name prod --restart --ticket - --hsm piv:serial=7`: {
			Enrollment{Name: "prod", User: "jane", Groups: []string{"dev"}}, key.TokenOnly()},
	} {
		if got := c.of.Restart(c.on); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestServers: a list has the API servers of the records that can be read, and names the others.
func TestServers(t *testing.T) {
	s, d := testStore(t)
	if servers, _, err := s.Servers(); err != nil || len(servers) != 0 {
		t.Errorf("nothing enrolled: %v, %v", servers, err)
	}
	e := sample(t, certificate(t, "ca"))
	check(t, s.Save(e))
	long := e
	long.Name, long.Cluster.Server = "long", "https://other:6443/a&b"
	long.Cluster.CAData = []byte(strings.Repeat(string(e.Cluster.CAData), 40)) // more than the room of the record before
	check(t, s.Save(long))
	for name, text := range map[string]string{"cut": `{"name":"cut"`, "later": `{"version":9,"cluster":{"server":"https://x"}}`,
		"open": `{"cluster":{"server":"https://x"}}`, "usable": `{"version":9,"needs":1,"cluster":{"server":"https://y"},"new":1}`} {
		check(t, os.WriteFile(filepath.Join(d.State, "enrollments", name+".json"), []byte(text), 0o600))
	}
	check(t, os.Chmod(filepath.Join(d.State, "enrollments", "open.json"), 0o666))
	servers, _, err := s.Servers()
	if want := map[string]string{e.Name: e.Cluster.Server, "long": "https://other:6443/a&b", "usable": "https://y"}; !reflect.DeepEqual(
		servers,
		want,
	) {
		t.Errorf("%v, want %v", servers, want)
	}
	for _, name := range []string{"cut", "later", "open"} {
		if err == nil || !strings.Contains(err.Error(), "enrollment "+name+":") {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if !errors.Is(err, record.ErrNewer) || !errors.Is(err, home.ErrUnsafe) {
		t.Errorf("%v", err)
	}
}

// TestTooLarge: what could not be read again is not written in the place of what can be.
func TestTooLarge(t *testing.T) {
	s, _ := testStore(t)
	e := sample(t, certificate(t, "ca"))
	check(t, s.Save(e))
	large := e
	large.Cluster.CAData = []byte(strings.Repeat(string(e.Cluster.CAData), home.MaxFile/len(e.Cluster.CAData)))
	if err := s.Save(large); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if got, err := s.Load(e.Name); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("%+v, %v", got, err)
	}
}

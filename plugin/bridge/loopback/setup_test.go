package loopback

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

func TestSetupOnceForAll(t *testing.T) {
	d := testDirs(t)
	if _, err := Load(d); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	got := make([]Endpoint, 8)
	for i := range got {
		wg.Go(func() {
			ep, err := Setup(d)
			if err != nil {
				t.Error(err)
			}
			got[i] = ep
		})
	}
	wg.Wait()
	for _, ep := range got {
		if ep.Port != got[0].Port || !bytes.Equal(ep.CAPEM, got[0].CAPEM) {
			t.Fatalf("two identities: %+v %+v", ep, got[0])
		}
	}
	if p := got[0].Port; p < firstPort || p > lastPort {
		t.Fatalf("port %d", p)
	}
	if u := got[0].URL("prod"); !strings.HasPrefix(u, "https://127.0.0.1:") || !strings.HasSuffix(u, "/c/prod") {
		t.Fatal(u)
	}
	files := 0
	check(t, filepath.WalkDir(string(here(d)), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		info, err := e.Info()
		check(t, err)
		b, err := os.ReadFile(path)
		check(t, err)
		if info.Mode().Perm() != 0o600 || strings.HasPrefix(e.Name(), ".") || bytes.Contains(b, []byte("PRIVATE KEY")) != (e.Name() == "ca.pem") {
			t.Errorf("%s, %v:\n%s", path, info.Mode(), b)
		}
		return nil
	}))
	if files != 2 {
		t.Errorf("%d files", files)
	}
}

// TestIdentityVerifies: clients that know the CA believe the bridge on loopback. Each certificate has a key of its own.
func TestIdentityVerifies(t *testing.T) {
	d := testDirs(t)
	ep, err := Setup(d)
	check(t, err)
	cert, err := Certificate(d)
	check(t, err)
	next, err := Certificate(d)
	check(t, err)
	for _, name := range []string{"127.0.0.1", "::1", "localhost"} {
		for _, leaf := range []*x509.Certificate{cert.Leaf, next.Leaf} {
			if err := verify(leaf, ep.CAPEM, name, time.Now().Add(leafLife-time.Hour)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := verify(cert.Leaf, ep.CAPEM, name, time.Now().Add(leafLife+time.Hour)); err == nil {
			t.Errorf("%s: it never ends", name)
		}
	}
	if reflect.DeepEqual(cert.Leaf.PublicKey, next.Leaf.PublicKey) {
		t.Error("two certificates have one key")
	}
	ca, err := x509.ParseCertificate(certificates(ep.CAPEM)[0])
	check(t, err)
	if !ca.IsCA || ca.KeyUsage != x509.KeyUsageCertSign || len(cert.Leaf.AuthorityKeyId) == 0 {
		t.Errorf("a strict verifier would refuse it: %+v", ca)
	}
}

// TestCAIsForLoopback: who has a copy of the CA's key can pass for no other server.
func TestCAIsForLoopback(t *testing.T) {
	d := testDirs(t)
	ep, err := Setup(d)
	check(t, err)
	ca, err := here(d).ca()
	check(t, err)
	for name, template := range map[string]*x509.Certificate{
		"10.0.0.1":        {IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}},
		"127.0.0.2":       {IPAddresses: []net.IP{net.IPv4(127, 0, 0, 2)}},
		"::2":             {IPAddresses: []net.IP{net.ParseIP("::2")}},
		"api.example.com": {DNSNames: []string{"api.example.com"}},
	} {
		template.NotBefore, template.NotAfter = ca.Certificate.NotBefore, ca.Certificate.NotAfter
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		der, _, err := ca.Issue(template)
		check(t, err)
		leaf, err := x509.ParseCertificate(der)
		check(t, err)
		var invalid x509.CertificateInvalidError
		if err := verify(leaf, ep.CAPEM, name, time.Now()); !errors.As(err, &invalid) ||
			invalid.Reason != x509.CANotAuthorizedForThisName {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func verify(leaf *x509.Certificate, authorities []byte, name string, at time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at})
	return err
}

func TestDamagedIdentityIsNotReplaced(t *testing.T) {
	for name, spoil := range map[string]func(f folder) error{
		"no port":  func(f folder) error { return os.Remove(f.path("port")) },
		"odd port": func(f folder) error { return os.WriteFile(f.path("port"), []byte("x"), 0o600) },
		"half":     func(f folder) error { return os.Truncate(f.path("ca.pem"), 100) },
		"empty":    func(f folder) error { return os.Truncate(f.path("ca.pem"), 0) },
		"another key": func(f folder) error {
			ca, err := newCA()
			if err != nil {
				return err
			}
			other, err := newCA()
			if err != nil {
				return err
			}
			ca.key = other.key
			text, err := ca.encode()
			return errors.Join(err, os.WriteFile(f.path("ca.pem"), text, 0o600))
		},
		"expired": func(f folder) error {
			ca, err := newAuthority("kubehsm bridge", -time.Minute, &x509.Certificate{})
			if err != nil {
				return err
			}
			text, err := ca.encode()
			return errors.Join(err, os.WriteFile(f.path("ca.pem"), text, 0o600))
		},
	} {
		d := testDirs(t)
		_, err := Setup(d)
		check(t, err)
		check(t, spoil(here(d)))
		_, err = Setup(d)
		if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(hint.Of(err), "kubeconfig set") {
			t.Errorf("%s: %v (%s)", name, err, hint.Of(err))
		}
	}
}

func TestLeftoversOfACrashDoNotMatter(t *testing.T) {
	d := testDirs(t)
	check(t, d.Prepare())
	check(t, os.Mkdir(filepath.Join(d.State, home.TempName("bridge")+"123"), 0o700))
	if _, err := Setup(d); err != nil {
		t.Fatal(err)
	}
}

// A program that takes the port first is noticed, and cannot pass for the bridge.
func TestSquatting(t *testing.T) {
	d := testDirs(t)
	ep, err := Setup(d)
	check(t, err)
	l, err := net.Listen("tcp4", ep.Address())
	check(t, err)
	defer l.Close()
	if _, err := Listen(ep); err == nil || !strings.Contains(err.Error(), ep.Address()) {
		t.Fatal(err)
	}
}

func testDirs(t *testing.T) home.Dirs {
	t.Helper()
	dir := t.TempDir()
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	check(t, err)
	return d
}

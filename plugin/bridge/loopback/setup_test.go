package loopback

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
)

func TestSetupOnceForAll(t *testing.T) {
	d := testDirs(t)
	if _, _, err := Load(d); !errors.Is(err, fs.ErrNotExist) {
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
	entries, err := os.ReadDir(d.State)
	check(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".bridge") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	files, err := os.ReadDir(dir(d))
	check(t, err)
	for _, f := range files {
		info, err := f.Info()
		check(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", f.Name(), info.Mode())
		}
		b, err := os.ReadFile(filepath.Join(dir(d), f.Name()))
		check(t, err)
		if n := bytes.Count(b, []byte("PRIVATE KEY-----\n")); f.Name() != "server.key" && n > 0 {
			t.Errorf("%s holds a private key", f.Name())
		}
	}
}

func TestIdentityVerifies(t *testing.T) {
	d := testDirs(t)
	_, err := Setup(d)
	check(t, err)
	ep, cert, err := Load(d)
	check(t, err)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	check(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ep.CAPEM)
	for _, name := range []string{"127.0.0.1", "::1", "localhost"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name,
			CurrentTime: time.Now().Add(9 * 365 * 24 * time.Hour)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	block, _ := pem.Decode(ep.CAPEM)
	ca, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	if !ca.IsCA || ca.KeyUsage != x509.KeyUsageCertSign || len(leaf.AuthorityKeyId) == 0 {
		t.Errorf("a strict verifier would refuse it: %+v", ca)
	}
}

func TestDamagedIdentityIsNotReplaced(t *testing.T) {
	for _, name := range []string{"port", "ca.crt", "server.crt", "server.key"} {
		d := testDirs(t)
		_, err := Setup(d)
		check(t, err)
		check(t, os.Remove(filepath.Join(dir(d), name)))
		_, err = Setup(d)
		if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(hint.Of(err), "kubeconfig set") {
			t.Errorf("without %s: %v (%s)", name, err, hint.Of(err))
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

// TestMove: another port, the same identity; not where somebody else listens.
func TestMove(t *testing.T) {
	d := testDirs(t)
	before, err := Setup(d)
	check(t, err)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := Move(d, port); !errors.Is(err, ErrPortTaken) {
		t.Fatal(err)
	}
	if _, err := Move(d, 80); err == nil {
		t.Fatal("a privileged port was taken")
	}
	if now, _, err := Load(d); err != nil || now.Port != before.Port {
		t.Fatalf("a refused move left port %d, %v", now.Port, err)
	}
	check(t, l.Close())
	_, err = Move(d, port)
	check(t, err)
	if now, _, err := Load(d); err != nil || now.Port != port || !bytes.Equal(now.CAPEM, before.CAPEM) {
		t.Fatalf("%+v, %v", now, err)
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

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

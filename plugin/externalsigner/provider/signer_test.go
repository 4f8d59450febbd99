package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// TestMain makes the test binary an external signer when it is started as one.
func TestMain(m *testing.M) {
	if wire.Requested(os.Args[1:], os.Getenv) {
		if err := actAsSigner(); err != nil {
			fmt.Fprintln(os.Stderr, "test signer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The race detector lets each process, so each signer, linger for a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// actAsSigner signs with a key in a file. It notes what it is asked for, and
// fails or hangs where the configuration says so.
func actAsSigner() error {
	request := os.Getenv(wire.EnvVar)
	r, err := wire.Read(nil, os.Getenv)
	if err != nil {
		return err
	}
	var c struct{ Configuration map[string]string }
	if err := json.Unmarshal([]byte(request), &c); err != nil {
		return err
	}
	dir := c.Configuration["dir"]
	what := map[wire.Operation]string{wire.Certificate: "certificate", wire.Sign: "sign"}[r.Operation]
	if kinds, err := os.ReadFile(filepath.Join(dir, "prototype")); err == nil {
		fmt.Fprintln(os.Stderr, "[EXTERNAL] configStr:", request)
		if string(kinds) == "only" && r.Dialect == wire.KEP {
			return errors.Join(note(filepath.Join(dir, "refused"), what),
				fmt.Errorf("undefined operation %s", r.Dialect.Kind(r.Operation)))
		}
	}
	if err := note(filepath.Join(dir, "log"), what); err != nil {
		return err
	}
	for _, trouble := range []string{"fail", "hang", "large", "endless", "leave"} {
		if b, err := os.ReadFile(filepath.Join(dir, trouble)); err == nil && string(b) == what {
			switch trouble {
			case "hang":
				select {}
			case "large":
				_, err = io.CopyN(os.Stdout, nothing{}, large)
				return err
			case "endless":
				_, err = io.Copy(os.Stdout, nothing{})
				return err
			case "leave":
				if err := leave(dir); err != nil {
					return err
				}
				continue
			}
			return errors.New("as told")
		}
	}
	cert, key, err := readPair(dir)
	if err != nil {
		return err
	}
	var answer []byte
	if r.Operation == wire.Certificate {
		var chain [][]byte
		if chain, err = readChain(dir); err == nil {
			answer = wire.CertificateAnswer(r.Dialect, cert, chain...)
		}
	} else {
		var sig []byte
		if sig, err = key.Sign(rand.Reader, r.Digest, r.Opts); err == nil {
			answer = wire.SignAnswer(r.Dialect, sig)
		}
	}
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(answer)
	return err
}

// large is an answer that a client had better not keep.
const large = 64 << 20

// nothing is zeros without end.
type nothing struct{}

func (nothing) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// leave starts a program that outlives the signer with its standard output, and
// notes which.
func leave(dir string) error {
	cmd := exec.Command("sleep", "3600")
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "left"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

func note(path, what string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, what)
	return errors.Join(err, f.Close())
}

func readPair(dir string) ([]byte, crypto.Signer, error) {
	cert, err := os.ReadFile(filepath.Join(dir, "cert"))
	if err != nil {
		return nil, nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(b)
	if err != nil {
		return nil, nil, err
	}
	return cert, key.(crypto.Signer), nil
}

// readChain reads the issuers that go with the certificate, if there are any.
func readChain(dir string) ([][]byte, error) {
	issuer, err := os.ReadFile(filepath.Join(dir, "issuer"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return [][]byte{issuer}, err
}

// authority issues certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	a := &authority{t: t, key: key}
	a.cert = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: t.Name()}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, key.Public())
	return a
}

func (a *authority) issue(template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Minute)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	check(a.t, err)
	cert, err := x509.ParseCertificate(der)
	check(a.t, err)
	return cert
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// person has a key behind a test signer.
type person struct {
	t   *testing.T
	dir string
}

func (a *authority) person(name string, key crypto.Signer) *person {
	a.t.Helper()
	p := &person{a.t, a.t.TempDir()}
	p.write("key", must(a.t, key))
	p.renew(a, name)
	return p
}

func must(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	b, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	return b
}

// renew puts another certificate behind the signer.
func (p *person) renew(a *authority, name string) {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "key"))
	check(p.t, err)
	key, err := x509.ParsePKCS8PrivateKey(b)
	check(p.t, err)
	p.write("cert", a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key.(crypto.Signer).Public()).Raw)
}

func (p *person) write(name string, b []byte) {
	p.t.Helper()
	check(p.t, os.WriteFile(filepath.Join(p.dir, name), b, 0o600))
}

// config is the auth provider's configuration.
func (p *person) config(more ...string) map[string]string {
	c := map[string]string{"pathExec": executable(p.t), "dir": p.dir, "uri": "piv:slot=9a"}
	for i := 0; i < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return maps.Clone(c)
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	check(t, err)
	return path
}

// runs tells how often the signer was started for certificates and signatures.
func (p *person) runs() (certificates, signatures int) {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return strings.Count(string(b), "certificate\n"), strings.Count(string(b), "sign\n")
}

func (p *person) wantRuns(certificates, signatures int) {
	p.t.Helper()
	if c, s := p.runs(); c != certificates || s != signatures {
		p.t.Errorf("the signer ran %d times for the certificate and %d times for a signature, want %d and %d", c, s,
			certificates, signatures)
	}
}

// rsaKey is everybody's, as it takes long to make one.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newKey(t *testing.T, kind string) crypto.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch kind {
	case "rsa-2048":
		key, err = rsaKey()
	case "ecdsa-p256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ecdsa-p384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	check(t, err)
	return key
}

package bridge

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

// rig is a bridge in front of a stand-in API server.
type rig struct {
	t        testing.TB
	api      *bridgetest.Server
	ep       loopback.Endpoint
	sessions *Sessions
	options  upstream.Options // options of up
	up       *upstream.Upstream
	clock    *clock
	log      *bytes.Buffer
	locked   atomic.Bool // the enrollment has no upstream
	server   *Server
	revived  chan owner // sessions that began again
}

type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// lockedBuffer is a log for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  *bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func testDirs(t testing.TB) home.Dirs {
	t.Helper()
	dir := t.TempDir()
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: dir}[k] })
	check(t, err)
	return d
}

type rigOptions struct {
	api    bridgetest.Options
	prefix string
	proxy  string
	delay  func() // before each signature
	signer func(context.Context) (crypto.Signer, error)
	policy consent.Policy
	ask    func(context.Context, Question) error
	whose  Whose
	denied func(Denial)
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, api: bridgetest.New(t, o.api), clock: &clock{}, log: &bytes.Buffer{},
		revived: make(chan owner, 10)}
	log := slog.New(slog.NewTextHandler(&lockedBuffer{b: r.log}, nil))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	leaf := r.api.Certificate(t, key.Public(), "alice", time.Hour)
	if o.signer == nil {
		o.signer = func(context.Context) (crypto.Signer, error) { return slowSigner{key, o.delay}, nil }
	}
	hash, err := hsm.Fingerprint(key.Public())
	check(t, err)
	r.options = upstream.Options{
		Enrollment: enrollment.Enrollment{Name: "prod", KeyHash: hash, Policy: o.policy.Mode, Rules: o.policy.Rules,
			Cluster: cluster.Cluster{Server: r.api.URL + o.prefix, CAData: r.api.CAPEM, ProxyURL: o.proxy}},
		Policy: consent.Policies{o.policy},
		Chain:  []*x509.Certificate{leaf}, Signer: o.signer, Log: log,
	}
	r.up, err = upstream.New(r.options)
	check(t, err)
	t.Cleanup(r.up.Close)
	d := testDirs(t)
	r.ep, err = loopback.Setup(d)
	check(t, err)
	cert, err := loopback.Certificate(d)
	check(t, err)
	r.sessions, err = NewSessions(r.clock.now)
	check(t, err)
	s := NewServer(func() *tls.Certificate { return &cert }, r.sessions, func(name string) *upstream.Upstream {
		if name == "prod" && !r.locked.Load() {
			return r.up
		}
		return nil
	}, log)
	r.server = s
	s.Consent, s.Whose = o.ask, o.whose
	if s.Whose == nil { // clients are made up
		s.Whose = func(_, _ netip.AddrPort, of Client, _ []Client) (Client, bool, error) { return of, true, nil }
	}
	s.Denied = o.denied
	s.Revived = func(enrollment string, client Client) { r.revived <- owner{enrollment, client} }
	l, err := loopback.Listen(r.ep)
	check(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		check(t, s.Close())
		check(t, <-done)
	})
	return r
}

type slowSigner struct {
	crypto.Signer
	delay func()
}

func (s slowSigner) Sign(r io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if s.delay != nil {
		s.delay()
	}
	return s.Signer.Sign(r, digest, o)
}

// tls is a client's configuration with the certificate of c.
func (r *rig) tls(c *Credential, protos ...string) *tls.Config {
	r.t.Helper()
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), NextProtos: protos}
	if !cfg.RootCAs.AppendCertsFromPEM(r.ep.CAPEM) {
		r.t.Fatal("no CA")
	}
	if c != nil {
		cert, err := tls.X509KeyPair(c.Certificate, c.Key)
		check(r.t, err)
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg
}

func (r *rig) issue(name string, c Client) *Credential {
	r.t.Helper()
	cred, err := r.sessions.Issue(name, c, nil)
	check(r.t, err)
	return &cred
}

func (r *rig) client(c *Credential) *http.Client {
	r.t.Helper()
	tr := &http.Transport{TLSClientConfig: r.tls(c), ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 64}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// get reads /c/prod + path.
func (r *rig) get(c *http.Client, path string) (int, string) {
	r.t.Helper()
	resp, err := c.Get(r.ep.URL("prod") + path)
	check(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(r.t, err)
	return resp.StatusCode, string(b)
}

// refused checks that body is a Status of code that says words.
func refused(t testing.TB, body string, code int32, words string) {
	t.Helper()
	var st metav1.Status
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if st.Kind != "Status" || st.APIVersion != "v1" || st.Status != metav1.StatusFailure || st.Code != code ||
		st.Reason == "" || !strings.Contains(st.Message, words) {
		t.Fatalf("Status = %+v, want code %d and %q", st, code, words)
	}
}

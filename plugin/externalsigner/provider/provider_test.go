package provider

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
)

// server tells each client who it is by its certificate.
type server struct {
	*httptest.Server
	authority *authority

	mu      sync.Mutex
	refuse  string // whom it answers 401
	seen    []string
	resumed int
}

func newServer(t *testing.T, versions ...uint16) *server {
	t.Helper()
	s := &server{authority: newAuthority(t)}
	s.Server = httptest.NewUnstartedServer(s)
	key := newKey(t, "ecdsa-p256")
	cert := s.authority.issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, key.Public())
	roots := x509.NewCertPool()
	roots.AddCert(s.authority.cert)
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		ClientCAs:    roots, ClientAuth: tls.VerifyClientCertIfGiven,
	}
	if len(versions) > 0 {
		s.TLS.MinVersion, s.TLS.MaxVersion = versions[0], versions[0]
	}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := "anonymous"
	if len(r.TLS.PeerCertificates) > 0 {
		name = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if auth := r.Header.Get("Authorization"); auth != "" {
		name += " with " + auth
	}
	s.mu.Lock()
	s.seen = append(s.seen, name)
	if r.TLS.DidResume {
		s.resumed++
	}
	refused := s.refuse == name
	s.mu.Unlock()
	if refused {
		w.WriteHeader(http.StatusUnauthorized)
	}
	fmt.Fprint(w, name+" "+r.Header.Get("X-Wrapped"))
}

// clientConfig is a client's configuration for the server, without a user.
func (s *server) clientConfig() *rest.Config {
	return &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: s.authority.pem()}}
}

// wrapped has the provider wrap the transports of a configuration, as client-go
// does for a registered one.
func wrapped(t *testing.T, f rest.Factory, c *rest.Config, config map[string]string) *rest.Config {
	t.Helper()
	p, err := f(c.Host, config, nil)
	check(t, err)
	c.Wrap(p.WrapTransport)
	return c
}

func client(t *testing.T, c *rest.Config) *http.Client {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	check(t, err)
	return h
}

func get(ctx context.Context, h *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := h.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(b)), err
}

func wantName(t *testing.T, h *http.Client, url, want string) {
	t.Helper()
	if got, err := get(t.Context(), h, url); err != nil || got != want {
		t.Errorf("the server sees %q, want %q (%v)", got, want, err)
	}
}

// TestKeysAndVersions: a cold burst of requests costs one signature.
func TestKeysAndVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, kind := range []string{"rsa-2048", "ecdsa-p256", "ecdsa-p384", "ed25519"} {
			t.Run(tls.VersionName(version)+" "+kind, func(t *testing.T) {
				s := newServer(t, version)
				jane := s.authority.person("jane", newKey(t, kind))
				f := NewFactory(Options{})
				var wg sync.WaitGroup
				for range 10 {
					h := client(t, wrapped(t, f, s.clientConfig(), jane.config()))
					wg.Go(func() { wantName(t, h, s.URL, "jane") })
				}
				wg.Wait()
				jane.wantRuns(1, 1)
			})
		}
	}
}

// TestUsersStayApart: client-go shares one transport among these clients.
func TestUsersStayApart(t *testing.T) {
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
	joe := s.authority.person("joe", newKey(t, "ecdsa-p256"))
	f := NewFactory(Options{})
	nobody := client(t, s.clientConfig())
	asJane := client(t, wrapped(t, f, s.clientConfig(), jane.config()))
	asJoe := client(t, wrapped(t, f, s.clientConfig(), joe.config()))
	for range 3 {
		wantName(t, nobody, s.URL, "anonymous")
		wantName(t, asJane, s.URL, "jane")
		wantName(t, asJoe, s.URL, "joe")
	}
	jane.wantRuns(1, 1)
	joe.wantRuns(1, 1)
}

// TestOwnToken: a request with a token goes without the certificate.
func TestOwnToken(t *testing.T) {
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
	c := s.clientConfig()
	c.BearerToken = "t"
	wantName(t, client(t, wrapped(t, NewFactory(Options{}), c, jane.config())), s.URL, "anonymous with Bearer t")
	jane.wantRuns(0, 0)
}

type opaque struct {
	Note     string
	Delegate http.RoundTripper
}

func (o *opaque) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Wrapped", "yes")
	return o.Delegate.RoundTrip(r)
}

type hidden struct{ inner *opaque }

func (h hidden) RoundTrip(r *http.Request) (*http.Response, error) { return h.inner.RoundTrip(r) }

type frank struct{ next func() http.RoundTripper }

func (f frank) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Wrapped", "yes")
	return f.next().RoundTrip(r)
}
func (f frank) WrappedRoundTripper() http.RoundTripper { return f.next() }

type closed func(*http.Request) (*http.Response, error)

func (c closed) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

// TestWrappers: what others wrap around the transport stays in force.
func TestWrappers(t *testing.T) {
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"field":             func(rt http.RoundTripper) http.RoundTripper { return &opaque{Delegate: rt} },
		"unexported, value": func(rt http.RoundTripper) http.RoundTripper { return hidden{&opaque{Delegate: rt}} },
		"method": func(rt http.RoundTripper) http.RoundTripper {
			return frank{func() http.RoundTripper { return rt }}
		},
		"several": func(rt http.RoundTripper) http.RoundTripper {
			return &opaque{Delegate: hidden{&opaque{Delegate: frank{func() http.RoundTripper { return rt }}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
			c := s.clientConfig()
			c.Wrap(wrap)
			wantName(t, client(t, wrapped(t, NewFactory(Options{}), c, jane.config())), s.URL, "jane yes")
			wantName(t, client(t, s.clientConfig()), s.URL, "anonymous")
		})
	}
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
	c := s.clientConfig()
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return closed(rt.RoundTrip) })
	_, err := get(t.Context(), client(t, wrapped(t, NewFactory(Options{}), c, jane.config())), s.URL)
	if err == nil || !strings.Contains(err.Error(), "WrappedRoundTripper") {
		t.Errorf("a wrapper that cannot be looked into: %v", err)
	}
}

// TestUpgrades: SPDY and WebSocket connections are dialled by others, and
// resume the session of an earlier request.
func TestUpgrades(t *testing.T) {
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
	f := NewFactory(Options{})
	wantName(t, client(t, wrapped(t, f, s.clientConfig(), jane.config())), s.URL, "jane")

	headers := func(rt http.RoundTripper) http.RoundTripper { return &opaque{Delegate: rt} } // a wrapper like kubectl's
	c := s.clientConfig()
	c.Wrap(headers)
	ws, _, err := websocket.RoundTripperFor(wrapped(t, f, c, jane.config()))
	check(t, err)
	c = s.clientConfig()
	c.Wrap(headers)
	sp, _, err := spdy.RoundTripperFor(wrapped(t, f, c, jane.config()))
	check(t, err)
	c = s.clientConfig()
	c.BearerToken = "t"
	token, _, err := websocket.RoundTripperFor(wrapped(t, f, c, jane.config()))
	check(t, err)
	for _, rt := range []http.RoundTripper{ws, sp, token} { // the server does not upgrade; whom it sees counts
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		check(t, err)
		if resp, err := rt.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.seen, ", "); got != "jane, jane, jane, anonymous with Bearer t" {
		t.Errorf("the server saw %s", got)
	}
	if s.resumed != 2 {
		t.Errorf("%d sessions were resumed, want 2", s.resumed)
	}
	jane.wantRuns(1, 1)
}

// TestRenewal: after a 401 the certificate is asked for again, and a new one
// makes new connections.
func TestRenewal(t *testing.T) {
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
	h := client(t, wrapped(t, NewFactory(Options{CoolDown: time.Nanosecond}), s.clientConfig(), jane.config()))
	wantName(t, h, s.URL, "jane")
	jane.renew(s.authority, "jane anew")
	wantName(t, h, s.URL, "jane")
	s.mu.Lock()
	s.refuse = "jane"
	s.mu.Unlock()
	wantName(t, h, s.URL, "jane") // refused
	wantName(t, h, s.URL, "jane anew")
	jane.wantRuns(2, 2)
}

// TestFailureIsNotRepeated: clients retry, users want to be asked once.
func TestFailureIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"certificate", "sign"} {
		t.Run(what, func(t *testing.T) {
			s := newServer(t)
			jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
			jane.write("fail", []byte(what))
			var words strings.Builder
			h := client(t, wrapped(t, NewFactory(Options{CoolDown: time.Hour, Stderr: &words}), s.clientConfig(), jane.config()))
			for range 4 {
				_, err := get(t.Context(), h, s.URL)
				if err == nil || !strings.Contains(err.Error(), "it failed: test signer: as told") {
					t.Errorf("error %v", err)
				}
			}
			if c, sig := jane.runs(); c+sig != 1 && (what == "certificate" || c != 1 || sig != 1) {
				t.Errorf("%d runs for the certificate, %d for a signature", c, sig)
			}
			if words.String() != "test signer: as told\n" {
				t.Errorf("the user reads %q", words.String())
			}
		})
	}
}

// TestPrototype: a signer that knows only the prototype's kinds is asked in them, and one that
// fails for another reason is not asked again, even if it shows the request.
func TestPrototype(t *testing.T) {
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
	jane.write("prototype", []byte("only"))
	h := client(t, wrapped(t, NewFactory(Options{Stderr: io.Discard}), s.clientConfig(), jane.config()))
	wantName(t, h, s.URL, "jane")
	jane.wantRuns(1, 1)
	if b, err := os.ReadFile(filepath.Join(jane.dir, "refused")); err != nil || string(b) != "certificate\n" {
		t.Errorf("refused %q, %v", b, err)
	}

	john := s.authority.person("john", newKey(t, "ecdsa-p256"))
	john.write("prototype", []byte("too"))
	john.write("fail", []byte("certificate"))
	if says := certificateError(t, john.config()); !strings.HasSuffix(says, "it failed: test signer: as told") {
		t.Error(says)
	}
	john.wantRuns(1, 0)
}

// TestLastWords: the reason is the signer's last line, with its hint, and never a PIN.
func TestLastWords(t *testing.T) {
	for words, want := range map[string]string{
		"":                             "it failed: exit status 1",
		"\n\n":                         "it failed: exit status 1",
		"Enter pin: \r\nno such key\n": "it failed: no such key",
		"error: no terminal to ask on\nhint: run `kubehsm unlock`\n": "" +
			"it failed: no terminal to ask on; hint: run `kubehsm unlock`",
		"\x1b[2Jbad PIN 12  456": "it failed: \ufffd[2Jbad PIN (PIN)",
	} {
		if got := (&failure{words, "exit status 1", "12  456"}).Error(); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}

// TestTooLate: a signer that outlasts the handshake is ended, with the reason.
func TestTooLate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	jane := a.person("jane", newKey(t, "ecdsa-p256"))
	jane.write("hang", []byte("sign"))
	p, err := NewFactory(Options{})("https://x", jane.config(), nil)
	check(t, err)
	leaf := p.(*provider).leaf
	chain, err := leaf.get(t.Context())
	check(t, err)
	key := &remoteKey{signer: leaf.signer, public: chain[0].PublicKey, ctx: t.Context(), start: time.Now(),
		limit: time.Second}
	_, err = key.Sign(nil, make([]byte, 32), crypto.SHA256)
	if err == nil || !strings.Contains(err.Error(), "within the 1s that a TLS handshake may take") {
		t.Errorf("error %v", err)
	}
}

// TestWrongKey: the signer's certificate is not for its key.
func TestWrongKey(t *testing.T) {
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
	jane.write("key", must(t, newKey(t, "ecdsa-p256")))
	_, err := get(t.Context(), client(t, wrapped(t, NewFactory(Options{}), s.clientConfig(), jane.config())), s.URL)
	if err == nil || !strings.Contains(err.Error(), "does not fit the key in its certificate") {
		t.Errorf("error %v", err)
	}
}

func TestConfiguration(t *testing.T) {
	f := NewFactory(Options{})
	for name, c := range map[string]struct {
		config map[string]string
		says   string
	}{
		"none":     {nil, "has no pathExec"},
		"relative": {map[string]string{"pathExec": "./signer"}, "neither an absolute path"},
		"unknown":  {map[string]string{"pathExec": "no-such-signer-anywhere"}, "not on PATH"},
		"twice":    {map[string]string{"pathExec": "/a", "path-exec": "/b"}, "twice"},
	} {
		if _, err := f("https://x", c.config, nil); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	jane := newAuthority(t).person("jane", newKey(t, "ecdsa-p256"))
	one, err := f("https://x", jane.config(), nil)
	check(t, err)
	same, err := f("https://x", jane.config(), nil)
	if err != nil || same != one {
		t.Errorf("the same configuration has another provider: %v", err)
	}
	if other, err := f("https://x", jane.config("uri", "piv:slot=9c"), nil); err != nil || other == one {
		t.Errorf("another configuration has the same provider: %v", err)
	}
}

// TestIntermediates: a server that knows only the root lets in who is certified by an
// authority below it, as the signer's answer brings the issuer.
func TestIntermediates(t *testing.T) {
	s := newServer(t)
	key := newKey(t, "ecdsa-p256")
	middle := &authority{t: t, key: key}
	middle.cert = s.authority.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "middle"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key.Public())
	jane := middle.person("jane", newKey(t, "ecdsa-p256"))
	jane.write("issuer", middle.cert.Raw)
	f := NewFactory(Options{Stderr: io.Discard})
	wantName(t, client(t, wrapped(t, f, s.clientConfig(), jane.config())), s.URL, "jane")
	jane.write("issuer", []byte("no certificate"))
	elsewhere := newServer(t)
	h := client(t, wrapped(t, NewFactory(Options{Stderr: io.Discard}), elsewhere.clientConfig(), jane.config()))
	if _, err := h.Get(elsewhere.URL); err == nil || !strings.Contains(err.Error(), "malformed external signer answer") {
		t.Errorf("an issuer that is no certificate: %v", err)
	}
}

// TestRegistered: through client-go's registry, once per process.
// registered registers the provider once, as client-go keeps it for the whole process.
var registered = sync.OnceValue(func() error { return Register(Options{}) })

func TestRegistered(t *testing.T) {
	check(t, registered())
	if err := Register(Options{}); err == nil {
		t.Error("a second registration is no error")
	}
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
	c := s.clientConfig()
	c.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: Name, Config: jane.config()}
	wantName(t, client(t, c), s.URL, "jane")
}

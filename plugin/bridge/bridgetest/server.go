// Package bridgetest is a stand-in for an API server in unit tests of the
// agent and the bridge: TLS with client certificates, HTTP/2 or HTTP/1.1,
// watches, uploads, and an upgrade that echoes.
package bridgetest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is the stand-in. Its paths: /version; /echo (what arrived, as JSON);
// /bytes?n= (with Content-Length, or without if &chunked=1); /watch (a line per
// [Server.Send]) and the same as JSON, /api/v1/watch/pods; /api/v1/watch/resets
// (resets its stream after an event); /upgrade (echoes until the client ends, after an interim answer); /endless (a
// head without
// end); /trailer; /upload; /gzip; /hangs; /goaway (has the client leave its HTTP/2 connection).
type Server struct {
	*httptest.Server
	CA    *x509.Certificate
	CAPEM []byte
	// Connections counts TLS connections, Full those that were not resumed.
	Connections, Full atomic.Int64
	// Uploaded counts the bytes that /upload has read, Endless those that /endless
	// has sent.
	Uploaded, Endless atomic.Int64
	// Cuts counts the requests for /cut.
	Cuts atomic.Int64
	// Hangs counts the requests for /hangs, which wait until their client goes.
	Hangs atomic.Int64
	// Reject makes every request be answered 401.
	Reject atomic.Bool
	// Info is the kubeconfig in cluster-info, which is shown to everybody; nil if there is none.
	Info atomic.Pointer[string]

	key      *ecdsa.PrivateKey
	mu       sync.Mutex
	arrivals []string
	lines    map[chan string]struct{}
	approver *approver
}

// Options change the stand-in.
type Options struct {
	HTTP1 bool // no HTTP/2
	// Strict refuses clients without an accepted certificate in the handshake.
	Strict bool
	// Like makes it another server of the same cluster: the same authority, TLS
	// tickets of its own.
	Like *Server
	// Clients makes it accept the client certificates of that one, with an authority of its own.
	Clients *Server
	// Address is what it listens on; "" is a port of 127.0.0.1.
	Address string
}

// Arrived is /echo's answer.
type Arrived struct {
	Method, Target, Host, User, Body string
	Header, Trailer                  http.Header
}

// New starts a stand-in and ends it with the test.
func New(t testing.TB, o Options) *Server {
	s := &Server{lines: map[chan string]struct{}{}}
	if o.Like != nil {
		s.CA, s.key = o.Like.CA, o.Like.key
	} else {
		s.CA, s.key = authority(t, "bridgetest")
	}
	s.CAPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.CA.Raw})
	pool := x509.NewCertPool()
	pool.AddCert(s.CA)
	if o.Clients != nil {
		pool.AddCert(o.Clients.CA)
	}
	mux := router{}
	s.Server = httptest.NewUnstartedServer(s.published(s.authenticate(pool, mux)))
	if o.Address != "" {
		l, err := net.Listen("tcp", o.Address)
		fatal(t, err)
		fatal(t, s.Listener.Close())
		s.Listener = l
	}
	mux.handle("/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"gitVersion":"v1.37.1"}`) })
	mux.handle("/bytes", s.bytes)
	mux.handle("/watch", s.watch)
	mux.handle("/api/v1/watch/pods", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		s.watch(w, r)
	})
	mux.handle("/api/v1/watch/resets", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"type":"ADDED"}`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.handle("/upgrade", s.upgrade)
	mux.handle("/endless", s.endless)
	mux.handle("/trailer", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Sum", "42")
	})
	mux.handle("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(Gzipped) // a client that is gone wants none
	})
	mux.handle("/goaway", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	mux.handle("/upload", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(counter{&s.Uploaded}, r.Body)
		fmt.Fprint(w, n, " ", err)
	})
	mux.handle("/abort", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.handle("/cut", s.cut)
	mux.handle("/hangs", func(_ http.ResponseWriter, r *http.Request) {
		s.Hangs.Add(1)
		<-r.Context().Done()
	})
	mux.handle("/", func(w http.ResponseWriter, r *http.Request) {
		if s.requests(w, r) {
			return
		}
		echo(w, r)
	})
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(t, err)
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{s.issue(t, serverKey.Public(), pkix.Name{CommonName: "server"},
			time.Hour).Raw}, PrivateKey: serverKey}},
		ClientAuth: tls.RequestClientCert,
		ClientCAs:  pool,
		VerifyConnection: func(c tls.ConnectionState) error {
			s.Connections.Add(1)
			if !c.DidResume {
				s.Full.Add(1)
			}
			return nil
		},
	}
	if o.Strict {
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
	}
	s.EnableHTTP2 = !o.HTTP1
	if o.HTTP1 {
		s.TLS.NextProtos = []string{"http/1.1"}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// published answers requests for cluster-info.
func (s *Server) published(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := s.Info.Load()
		if info == nil || r.URL.Path != "/api/v1/namespaces/kube-public/configmaps/cluster-info" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", // a client that is gone wants none
			"data": map[string]string{"kubeconfig": *info}})
	})
}

// Publish has cluster-info say that the cluster is at server, with the authorities of those.
func (s *Server) Publish(server string, authorities ...*Server) {
	var bundle []byte
	for _, a := range authorities {
		bundle = append(bundle, a.CAPEM...)
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: %q, "+
		"certificate-authority-data: %s}\n", server, base64.StdEncoding.EncodeToString(bundle))
	s.Info.Store(&text)
}

// router finds handlers by the exact path; unlike http.ServeMux it neither
// cleans paths nor redirects.
type router map[string]http.HandlerFunc

func (m router) handle(path string, h http.HandlerFunc) { m[path] = h }

func (m router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := m[r.URL.Path]; h != nil {
		h(w, r)
		return
	}
	m["/"](w, r)
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

// Gzipped is what /gzip answers, as gzip.
var Gzipped = []byte("\x1f\x8b not to be looked into")

// Chain issues a client certificate through an intermediate authority, which the
// stand-in must be sent too.
func (s *Server) Chain(t testing.TB, pub any, user string) []*x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "intermediate"},
		NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, s.CA, key.Public(), s.key)
	fatal(t, err)
	between, err := x509.ParseCertificate(der)
	fatal(t, err)
	by := &Server{CA: between, key: key}
	return []*x509.Certificate{by.Certificate(t, pub, user, time.Hour), between}
}

// Certificate issues a client certificate that the stand-in accepts.
func (s *Server) Certificate(t testing.TB, pub any, user string, life time.Duration) *x509.Certificate {
	return s.issue(t, pub, pkix.Name{CommonName: user, Organization: []string{"testers"}}, life)
}

func (s *Server) issue(t testing.TB, pub any, subject pkix.Name, life time.Duration) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	fatal(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"api.test"},
	}, s.CA, pub, s.key)
	fatal(t, err)
	c, err := x509.ParseCertificate(der)
	fatal(t, err)
	return c
}

func authority(t testing.TB, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	fatal(t, err)
	c, err := x509.ParseCertificate(der)
	fatal(t, err)
	return c, key
}

// authenticate does what the API server does: a certificate that does not
// verify is a 401, in HTTP. It looks once per connection, so that benchmarks are
// not flattered by what the server itself costs.
func (s *Server) authenticate(pool *x509.CertPool, next http.Handler) http.Handler {
	var known sync.Map // verdicts by *x509.Certificate
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok := len(r.TLS.PeerCertificates) > 0
		if ok {
			leaf := r.TLS.PeerCertificates[0]
			verdict, seen := known.Load(leaf)
			if !seen {
				between := x509.NewCertPool()
				for _, c := range r.TLS.PeerCertificates[1:] {
					between.AddCert(c)
				}
				_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between,
					KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
				verdict = err == nil
				known.Store(leaf, verdict)
			}
			ok = verdict.(bool)
		}
		if !ok || s.Reject.Load() {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
			return
		}
		s.mu.Lock()
		if len(s.arrivals) < maxArrivals {
			s.arrivals = append(s.arrivals, r.Method+" "+r.RequestURI)
		}
		s.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// maxArrivals bounds what is kept for [Server.Arrivals].
const maxArrivals = 1000

// Arrivals lists the first requests that have arrived, by method and target.
func (s *Server) Arrivals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.arrivals)
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("X-Upstream", "yes")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusTeapot)
	_ = json.NewEncoder(w).Encode(Arrived{Method: r.Method, Target: r.RequestURI, Host: r.Host,
		User: r.TLS.PeerCertificates[0].Subject.CommonName, Body: string(body), Header: r.Header, Trailer: r.Trailer})
}

func (s *Server) bytes(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Query().Get("chunked") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(n))
	}
	w.Header().Set("Content-Type", "application/json")
	chunk := []byte(strings.Repeat("x", 32<<10))
	for n > 0 {
		m, err := w.Write(chunk[:min(n, len(chunk))])
		if err != nil {
			return
		}
		n -= m
	}
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	ch := make(chan string)
	s.mu.Lock()
	s.lines[ch] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.lines, ch)
		s.mu.Unlock()
	}()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case text := <-ch:
			fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// Watchers counts the open watches.
func (s *Server) Watchers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// Send sends a line to every open watch.
func (s *Server) Send(line string) { s.SendRaw(line + "\n") }

// SendRaw sends text to every open watch.
func (s *Server) SendRaw(text string) {
	s.mu.Lock()
	all := make([]chan string, 0, len(s.lines))
	for ch := range s.lines {
		all = append(all, ch)
	}
	s.mu.Unlock()
	for _, ch := range all {
		ch <- text
	}
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "echo" {
		http.Error(w, "no upgrade", http.StatusBadRequest)
		return
	}
	c, brw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprint(brw,
		"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nConnection: "+
			"Upgrade\r\nUpgrade: echo\r\nX-Protocol: v5\r\n\r\nhello\n")
	if brw.Flush() != nil {
		return
	}
	sc := bufio.NewScanner(brw)
	for sc.Scan() {
		if _, err := fmt.Fprintln(c, "echo:", sc.Text()); err != nil {
			return
		}
	}
	_, _ = fmt.Fprintln(c, "bye") // shows that our half is open after the client's is closed
}

// MaxEndless is what /endless stops at.
const MaxEndless = 64 << 20

// cut ends the first connection on which it is called, as a server does that is killed in
// the middle of a request.
func (s *Server) cut(w http.ResponseWriter, r *http.Request) {
	if s.Cuts.Add(1) == 1 {
		_, _ = io.Copy(io.Discard, r.Body) // needed to notice that an HTTP/1.1 client has gone
		go s.CloseClientConnections()
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"kind":"Status","status":"Success"}`)
}

func (s *Server) endless(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nX-Long: "); err != nil {
		return
	}
	chunk := []byte(strings.Repeat("a", 64<<10))
	for s.Endless.Load() < MaxEndless {
		n, err := c.Write(chunk)
		s.Endless.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

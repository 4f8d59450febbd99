package served

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/reading"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// way is a bridge in front of an API server, by one protocol on each side.
type way struct {
	t        *testing.T
	endpoint string // HOST:PORT of the bridge
	client   *tls.Config
	h2       *http2.Transport // nil for HTTP/1.1

	asked    atomic.Pointer[consent.Request]
	happened atomic.Pointer[happened]
	denied   atomic.Int64
	conn     *tls.Conn
	from     *bufio.Reader
}

// newWay starts both.
func newWay(t *testing.T, toBridge, toServer string) *way {
	t.Helper()
	w := &way{t: t}
	api := bridgetest.New(t, bridgetest.Options{HTTP1: toServer == "http/1.1"})
	api.Config.Handler = apiServer(t, func(h *happened) { w.happened.Store(h) })
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	hash, err := hsm.Fingerprint(key.Public())
	check(t, err)
	log := slog.New(slog.DiscardHandler)
	policy := consent.Policy{Mode: consent.Always}
	up, err := upstream.New(upstream.Options{
		Enrollment: enrollment.Enrollment{Name: "prod", KeyHash: hash,
			Cluster: cluster.Cluster{Server: api.URL, CAData: api.CAPEM}},
		Policy: consent.Policies{policy}, Chain: []*x509.Certificate{api.Certificate(t, key.Public(), me, time.Hour)},
		Signer: func(context.Context) (crypto.Signer, error) { return key, nil }, Log: log,
	})
	check(t, err)
	t.Cleanup(up.Close)
	authority, err := loopback.NewAuthority("served", time.Hour)
	check(t, err)
	der, pem, err := authority.Issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	check(t, err)
	cert, err := tls.X509KeyPair(loopback.CertificatePEM(der), pem)
	check(t, err)
	sessions, err := bridge.NewSessions(time.Now)
	check(t, err)
	s := bridge.NewServer(func() *tls.Certificate { return &cert }, sessions,
		func(string) *upstream.Upstream { return up }, log)
	s.Whose = func(_, _ netip.AddrPort, of bridge.Client, _ []bridge.Client) (bridge.Client, bool, error) {
		return of, true, nil
	}
	s.Consent = func(_ context.Context, q bridge.Question) error {
		w.asked.Store(&q.Request)
		return nil
	}
	s.Denied = func(bridge.Denial) { w.denied.Add(1) }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		check(t, s.Close())
		check(t, <-done)
	})
	credential, err := sessions.Issue("prod", bridge.Client{}, nil)
	check(t, err)
	mine, err := tls.X509KeyPair(credential.Certificate, credential.Key)
	check(t, err)
	server, err := x509.ParseCertificate(der)
	check(t, err)
	w.endpoint = l.Addr().String()
	w.client = &tls.Config{
		RootCAs:            x509.NewCertPool(),
		NextProtos:         []string{toBridge},
		Certificates:       []tls.Certificate{mine},
		InsecureSkipVerify: true, // No part of the test: the certificate is the one expected.
		VerifyConnection: func(c tls.ConnectionState) error {
			if !c.PeerCertificates[0].Equal(server) {
				return errors.New("another server")
			}
			return nil
		},
	}
	if toBridge == "h2" {
		w.h2 = &http2.Transport{TLSClientConfig: w.client, DisableCompression: true}
		t.Cleanup(w.h2.CloseIdleConnections)
	}
	t.Cleanup(w.hangUp)
	return w
}

func (w *way) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close() // Everything was said on the connection.
	}
	w.conn = nil
}

// send sends a request and awaits the end of its answer, which does not matter. The
// connection may end by it.
func (w *way) send(q reading.Request) {
	w.asked.Store(nil)
	w.happened.Store(nil)
	if w.h2 != nil {
		w.sendHTTP2(q)
		return
	}
	if w.conn == nil {
		conn, err := tls.Dial("tcp", w.endpoint, w.client)
		check(w.t, err)
		w.conn, w.from = conn, bufio.NewReader(conn)
	}
	head := q.Method + " /c/prod" + q.Target + " HTTP/1.1\r\nHost: " + w.endpoint + "\r\n" +
		strings.ReplaceAll(q.Header, "\n", "\r\n")
	switch {
	case q.Body && len(q.Content)%3 == 0:
		head += fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(q.Content), q.Content)
	case q.Body:
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(q.Content), q.Content)
	default:
		head += "\r\n"
	}
	check(w.t, w.conn.SetDeadline(time.Now().Add(30*time.Second)))
	if _, err := io.WriteString(w.conn, head); err != nil {
		w.hangUp()
		return
	}
	for {
		resp, err := http.ReadResponse(w.from, &http.Request{Method: q.Method})
		if err == nil && resp.StatusCode < 200 {
			continue
		}
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Close = resp.Close || resp.Body.Close() != nil
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			w.t.Errorf("no answer to %s", q)
		}
		if err != nil || resp.Close {
			w.hangUp()
		}
		return
	}
}

func (w *way) sendHTTP2(q reading.Request) {
	path, query, _ := strings.Cut("/c/prod"+q.Target, "?")
	h, ok := q.Headers()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r := (&http.Request{Method: q.Method, Host: w.endpoint, Header: h,
		URL: &url.URL{Scheme: "https", Host: w.endpoint, Opaque: path, RawQuery: query}}).WithContext(ctx)
	if q.Body {
		r.Body = io.NopCloser(strings.NewReader(q.Content))
		if r.ContentLength = int64(len(q.Content)); len(q.Content)%3 == 0 {
			r.ContentLength = -1
		}
	}
	resp, err := w.h2.RoundTrip(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // Reads to the end, however that comes.
		_ = resp.Body.Close()
	}
	if ctx.Err() != nil {
		w.t.Errorf("no answer to %s", q)
	}
}

// judge compares what a person was asked with what the API server did.
func (w *way) judge(q reading.Request) (served bool) {
	h, asked := w.happened.Load(), w.asked.Load()
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := reading.Meaning{Method: h.method}
	told := false
	for _, a := range h.authorised {
		switch {
		case strings.HasPrefix(a.Verb, "impersonate"):
			m.As = true
		case !told:
			told = true
			m.Verb, m.Group, m.Resource, m.Subresource = a.Verb, a.APIGroup, a.Resource, a.Subresource
			m.Namespace, m.Name, m.Path, m.ResourceRequest = a.Namespace, a.Name, a.Path, a.ResourceRequest
			m.As = m.As || a.User.GetName() != me
		}
	}
	if !told {
		return false // refused before it was authorised
	}
	m.DryRun = true
	for _, d := range h.done {
		m.Connects = m.Connects || d.verb == "connect"
		m.DryRun = m.DryRun && (d.dryRun || d.verb == "get" || d.verb == "list" || d.verb == "watch") &&
			!strings.HasSuffix(d.resource, "/token")
	}
	m.Connects = m.Connects || m.Verb == "proxy"
	m.DryRun = m.DryRun && len(h.done) > 0 && !m.Connects
	m.Selected = m.Verb == "list" || m.Verb == "watch"
	if asked == nil {
		if !m.Discovery() {
			w.t.Errorf("%s was served without a question: %+v", q, m)
		}
		return true
	}
	if len(h.done) == 0 {
		m.DryRun = true // nothing was done
	}
	ours := *asked
	if d := reading.Differs(ours, m); d != "" {
		w.t.Errorf("%s\n%s\nhere  %+v\nthere %+v\ndone  %+v", q, d, ours, m, h.done)
	} else if p := reading.Laxer(ours, m); p != "" {
		w.t.Errorf("%s\nthe policy %s serves it\nhere  %+v\nthere %+v", q, p, ours, m)
	}
	for _, d := range h.done {
		w.deed(q, ours, d)
	}
	return len(h.done) > 0
}

// deed compares what was done with what a person was asked.
func (w *way) deed(q reading.Request, ours consent.Request, d deed) {
	resource := ours.Resource
	if ours.Subresource != "" {
		resource += "/" + ours.Subresource
	}
	changes := slices.Contains([]string{"create", "update", "delete", "deletecollection"}, d.verb)
	switch {
	case d.resource != resource, d.namespace != ours.Namespace && ours.Resource != "namespaces",
		d.name != "" && ours.Name != "" && d.name != ours.Name, changes && d.verb != "create" && d.name != ours.Name:
		w.t.Errorf("%s\nhere  %+v\ndone  %+v", q, ours, d)
	case changes && !ours.Writes(), d.verb == "connect" && !ours.Connecting:
		w.t.Errorf("%s\ntaken for reading: %+v\ndone  %+v", q, ours, d)
	case changes && ours.DryRun && !d.dryRun:
		w.t.Errorf("%s\ntaken for a dry run: %+v\ndone  %+v", q, ours, d)
	}
}

// TestServed: what an API server does with a request is what a person was asked, by
// HTTP/1.1 and HTTP/2 on either side of the bridge.
func TestServed(t *testing.T) {
	chance := source(t)
	for _, protocols := range [][2]string{{"http/1.1", "h2"}, {"h2", "h2"}, {"http/1.1", "http/1.1"}, {"h2", "http/1.1"}} {
		t.Run(strings.ReplaceAll(protocols[0]+" to "+protocols[1], "/", ""), func(t *testing.T) {
			w := newWay(t, protocols[0], protocols[1])
			n, arrived := *served/4, 0
			for range n {
				q := reading.Generate(chance)
				if !strings.HasPrefix(q.Target, "/") {
					continue
				}
				w.send(q)
				if w.judge(q) {
					arrived++
				}
				if t.Failed() {
					return
				}
			}
			t.Logf("%d requests, %d refused by the bridge, %d served", n, w.denied.Load(), arrived)
			if arrived < n/10 {
				t.Error("too few were served: the comparison is worth little")
			}
		})
	}
}

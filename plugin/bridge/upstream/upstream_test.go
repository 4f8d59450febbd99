package upstream

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

var check = need.NoError

// rig is a stand-in API server and what an upstream to it needs.
type rig struct {
	t       testing.TB
	api     *bridgetest.Server
	key     crypto.Signer
	options Options
}

func newRig(t testing.TB, o bridgetest.Options) *rig {
	t.Helper()
	r := &rig{t: t, api: bridgetest.New(t, o)}
	var err error
	r.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	r.options = Options{
		Enrollment: enrollment.Enrollment{Name: "prod", Cluster: cluster.Cluster{Server: r.api.URL, CAData: r.api.CAPEM}},
		Chain:      []*x509.Certificate{r.api.Certificate(t, r.key.Public(), "alice", time.Hour)},
		Signer:     r.sign, Log: slog.New(slog.DiscardHandler),
	}
	return r
}

// sign returns the key.
func (r *rig) sign(context.Context) (crypto.Signer, error) { return r.key, nil }

// upstream returns an upstream to the API server, with options that change may alter.
func (r *rig) upstream(change func(*Options)) *Upstream {
	r.t.Helper()
	o := r.options
	change(&o)
	up, err := New(o)
	check(r.t, err)
	r.t.Cleanup(up.Close)
	return up
}

// TestSignIn: the signer that SignIn is given signs for the connection that it opens,
// whatever protocol the server speaks. A later connection uses the upstream's own signer.
func TestSignIn(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		r := newRig(t, bridgetest.Options{HTTP1: http1})
		asked := 0
		up := r.upstream(func(o *Options) {
			o.Signer = func(ctx context.Context) (crypto.Signer, error) { asked++; return r.sign(ctx) }
		})
		signed := 0
		sign := func(ctx context.Context) (crypto.Signer, error) { signed++; return r.sign(ctx) }
		for range 3 {
			check(t, up.SignIn(t.Context(), sign))
		}
		if st := up.Status(); signed != 1 || asked != 0 || st.Signatures != 1 || st.Dials != 1 || !up.Live() {
			t.Errorf("HTTP/1.1 %v: signed %d times, asked %d times, %+v", http1, signed, asked, st)
		}
		for i, send := range []func() error{
			func() error { return up.SignIn(t.Context(), sign) },
			func() error { return up.Check(t.Context()) },
		} {
			up.Forget()
			up.Reset()
			if up.Live() {
				t.Errorf("HTTP/1.1 %v: live after a reset", http1)
			}
			check(t, send())
			if signed != 2 || asked != i {
				t.Errorf("HTTP/1.1 %v: signed %d times, asked %d times", http1, signed, asked)
			}
		}
		refused := errors.New("not now")
		up.Forget()
		up.Reset()
		err := up.SignIn(t.Context(), func(context.Context) (crypto.Signer, error) { return nil, refused })
		if err == nil || !strings.Contains(err.Error(), "not now") || asked != 1 || signed != 2 {
			t.Errorf("HTTP/1.1 %v: %v, signed %d times, asked %d times", http1, err, signed, asked)
		}
		err = up.SignIn(t.Context(), func(context.Context) (crypto.Signer, error) { return leaver{r.key}, nil })
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
			t.Errorf("HTTP/1.1 %v: who was asked left: %v", http1, err)
		}
	}
}

// TestSignInBesideWatch: where the API server speaks HTTP/1.1 only, and others keep its
// connections busy, who signs in signs for the one that this opens. It ends with who waits.
func TestSignInBesideWatch(t *testing.T) {
	r := newRig(t, bridgetest.Options{HTTP1: true})
	asked := 0
	up := r.upstream(func(o *Options) {
		o.Signer = func(ctx context.Context) (crypto.Signer, error) { asked++; return r.sign(ctx) }
	})
	signed := 0
	check(t, up.SignIn(t.Context(), func(ctx context.Context) (crypto.Signer, error) { signed++; return r.sign(ctx) }))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.api.URL+"/watch", nil)
	check(t, err)
	watch, err := up.transport.RoundTrip(req)
	check(t, err)
	defer watch.Body.Close()
	up.Forget()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	err = up.SignIn(ctx, func(ctx context.Context) (crypto.Signer, error) {
		cancel()
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("who signs in left: %v", err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("who signs in was not asked, or the question outlived them")
	}
	check(t, up.SignIn(t.Context(), func(ctx context.Context) (crypto.Signer, error) { signed++; return r.sign(ctx) }))
	if asked != 0 || signed != 2 {
		t.Errorf("signed %d times, others were asked %d times", signed, asked)
	}
}

// leaver is a key whose owner leaves when asked.
type leaver struct{ crypto.Signer }

func (leaver) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, context.Canceled
}

// slow is a key that says when it is asked to sign, and waits.
type slow struct {
	crypto.Signer
	asked   chan<- struct{}
	release <-chan struct{}
}

func (s slow) Sign(rand io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	s.asked <- struct{}{}
	<-s.release
	return s.Signer.Sign(rand, digest, opts)
}

// The dial goes on when the request that caused it is given up, as others wait.
func TestDialOutlivesItsFirstRequest(t *testing.T) {
	release, signing := make(chan struct{}), make(chan struct{}, 1)
	r := newRig(t, bridgetest.Options{})
	up := r.upstream(func(o *Options) {
		o.Signer = func(context.Context) (crypto.Signer, error) { return slow{r.key, signing, release}, nil }
	})
	first, cancel := context.WithCancel(context.Background())
	results := make(chan error, 2)
	go func() { results <- up.Check(first) }()
	<-signing
	go func() { results <- up.Check(context.Background()) }()
	poll.Until(t, "two wait", func() bool {
		up.transport.pool.mu.Lock()
		defer up.transport.pool.mu.Unlock()
		return up.transport.pool.call != nil && up.transport.pool.call.waiters == 2
	})
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if !up.Carries() {
		t.Error("an upstream that dials carries nothing")
	}
	close(release)
	check(t, <-results)
	if st := up.Status(); st.Signatures != 1 {
		t.Fatalf("%+v", st)
	}
}

// TestServerName: the certificate is checked for tls-server-name, where one is
// enrolled, and for the host otherwise.
func TestServerName(t *testing.T) {
	r := newRig(t, bridgetest.Options{})
	for name, good := range map[string]bool{"": false, "api.test": true, "other.test": false} {
		up := r.upstream(func(o *Options) {
			// a name that the certificate does not have
			o.Enrollment.Cluster.Server = strings.Replace(r.api.URL, "127.0.0.1", "localhost", 1)
			o.Enrollment.Cluster.TLSServerName = name
		})
		if err := up.Check(context.Background()); (err == nil) != good || !good &&
			!strings.Contains(err.Error(), "not trusted") {
			t.Errorf("%q: %v", name, err)
		}
		if n := up.Status().Signatures; !good && n != 0 {
			t.Errorf("%q: %d signatures for a server we do not trust", name, n)
		}
	}
}

// TestIntermediates are presented in the handshake.
func TestIntermediates(t *testing.T) {
	for _, strict := range []bool{false, true} {
		r := newRig(t, bridgetest.Options{Strict: strict})
		chain := r.api.Chain(t, r.key.Public(), "alice")
		check(t, r.upstream(func(o *Options) { o.Chain = chain }).Check(context.Background()))
		if err := r.upstream(func(o *Options) { o.Chain = chain[:1] }).Check(context.Background()); !errors.Is(err,
			ErrUnauthorized) {
			t.Errorf("without the intermediate: %v", err)
		}
	}
}

// TestServersBehindOneName do not share TLS tickets, so that each new connection
// may cost a signature: the pooled one costs none.
func TestServersBehindOneName(t *testing.T) {
	r := newRig(t, bridgetest.Options{})
	backends := []string{strings.TrimPrefix(r.api.URL, "https://")}
	for range 2 {
		backends = append(backends, strings.TrimPrefix(bridgetest.New(t, bridgetest.Options{Like: r.api}).URL, "https://"))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	var dials atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", backends[int(dials.Add(1)-1)%len(backends)])
			if err != nil {
				_ = c.Close()
				continue
			}
			go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
			go func() { _, _ = io.Copy(c, up); _ = c.Close() }()
		}
	}()
	up := r.upstream(func(o *Options) { o.Enrollment.Cluster.Server = "https://" + l.Addr().String() })
	for range 100 {
		check(t, up.Check(context.Background()))
	}
	if st := up.Status(); st.Signatures != 1 || st.Dials != 1 {
		t.Fatalf("100 requests: %+v", st)
	}
	for range 5 { // every connection reaches another server
		up.Reset()
		check(t, up.Check(context.Background()))
	}
	if st := up.Status(); st.Dials != 6 || st.Signatures > 6 {
		t.Fatalf("%+v", st)
	}
}

// TestAuthority: another one that is enrolled is used for new connections; what
// it has not signed is not connected to.
func TestAuthority(t *testing.T) {
	r := newRig(t, bridgetest.Options{})
	moved := bridgetest.New(t, bridgetest.Options{})
	both := append(bytes.Clone(moved.CAPEM), r.api.CAPEM...)
	for _, tc := range []struct {
		ca   []byte
		good bool
	}{{both, true}, {r.api.CAPEM, true}, {moved.CAPEM, false}} {
		up := r.upstream(func(o *Options) {
			o.Enrollment.Cluster = cluster.Cluster{Server: r.api.URL, CAData: tc.ca}
		})
		if err := up.Check(context.Background()); (err == nil) != tc.good {
			t.Error(err)
		}
	}
	if _, err := http.Get(r.api.URL); err == nil { // the system's authorities are no way in
		t.Error("the stand-in is trusted by everybody")
	}
	up := r.upstream(func(o *Options) { o.Enrollment.Cluster.CAData = nil })
	if err := up.Check(context.Background()); err == nil {
		t.Error("without an authority the system's would have to know it")
	}
	up = r.upstream(func(o *Options) {
		o.Enrollment.Cluster.CAData, o.Enrollment.Cluster.InsecureSkipTLSVerify = nil, true
	})
	if err := up.Check(context.Background()); err != nil {
		t.Errorf("enrolled without verification: %v", err)
	}
}

// TestFailures: a server that refuses the certificate and a server that is not trusted give
// different errors. The latter gets no signature.
func TestFailures(t *testing.T) {
	r := newRig(t, bridgetest.Options{Strict: true})
	other := bridgetest.New(t, bridgetest.Options{})
	up := r.upstream(func(o *Options) {
		o.Chain = []*x509.Certificate{other.Certificate(t, r.key.Public(), "mallory", time.Hour)}
	})
	if err := up.Check(t.Context()); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("rejected in the handshake: %v", err)
	}
	up = r.upstream(func(o *Options) { o.Enrollment.Cluster.CAData = other.CAPEM })
	if err := up.Check(t.Context()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "not trusted") {
		t.Errorf("untrusted: %v", err)
	}
	if n := up.Status().Signatures; n != 0 {
		t.Errorf("%d signatures for a server we do not trust", n)
	}
}

package provider

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/service"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// serve has the person's key served on a socket, which it returns as an auth
// provider's address.
func (p *person) serve() string {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(p.dir, "s", "sock")
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- service.ListenAndServe(ctx, path, service.Options{Answer: p.answer}, func() { close(ready) })
	}()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			p.t.Errorf("the socket was left: %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- err
		p.t.Fatal(err)
	}
	return service.Scheme + path
}

// answer is what the signer behind the socket does: what [actAsSigner] does.
func (p *person) answer(ctx context.Context, r externalsigner.Request, tell func(string)) (a externalsigner.Answer,
	err error) {
	what := map[wire.Operation]string{wire.Certificate: "certificate", wire.Sign: "sign"}[r.Operation]
	if err := note(filepath.Join(p.dir, "log"), what); err != nil {
		return a, err
	}
	tell("touch \x1b[31mthe\u202e token\nfor " + what)
	if b, err := os.ReadFile(filepath.Join(p.dir, "hang")); err == nil && string(b) == what {
		<-ctx.Done()
		return a, ctx.Err()
	}
	if b, err := os.ReadFile(filepath.Join(p.dir, "fail")); err == nil && string(b) == what {
		return a, errors.New("as told: connection refused")
	}
	if b, err := os.ReadFile(filepath.Join(p.dir, "babble")); err == nil && string(b) == what {
		for range 2 * maxPrompts {
			tell("still there")
		}
	}
	cert, key, err := readPair(p.dir)
	if err != nil {
		return a, err
	}
	if r.Operation == wire.Certificate {
		chain, err := readChain(p.dir)
		return externalsigner.Answer{Certificate: cert, Chain: chain}, err
	}
	a.Signature, err = key.Sign(rand.Reader, r.Digest, r.Opts)
	return a, err
}

// socketConfig is the auth provider's configuration for an address.
func socketConfig(address string) map[string]string {
	return map[string]string{"pathSocket": address, "uri": "piv:slot=9a"}
}

// shown is what the provider shows, for many at once.
type shown struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *shown) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(b)
}

func TestSocket(t *testing.T) {
	for _, c := range []struct {
		version uint16
		kind    string
	}{{tls.VersionTLS12, "rsa-2048"}, {tls.VersionTLS13, "rsa-2048"}, {tls.VersionTLS13, "ed25519"}} {
		s := newServer(t, c.version)
		jane := s.authority.person("jane", newKey(t, c.kind))
		var prompts shown
		f := NewFactory(Options{Stderr: &prompts})
		address := jane.serve()
		if c.version == tls.VersionTLS12 { // the plain path means the same
			address = strings.TrimPrefix(address, scheme)
		}
		var wg sync.WaitGroup
		for range 5 {
			h := client(t, wrapped(t, f, s.clientConfig(), socketConfig(address)))
			wg.Go(func() { wantName(t, h, s.URL, "jane") })
		}
		wg.Wait()
		jane.wantRuns(1, 1)
		const want = "touch \ufffd[31mthe\ufffd token for "
		if got := prompts.String(); got != want+"certificate\n"+want+"sign\n" {
			t.Errorf("shown: %q", got)
		}
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
	address := jane.serve()
	for _, config := range []map[string]string{jane.config(), socketConfig(address)} {
		wantName(t, client(t, wrapped(t, f, s.clientConfig(), config)), s.URL, "jane")
	}
	jane.write("issuer", []byte("no certificate"))
	for _, config := range []map[string]string{jane.config(), socketConfig(address)} {
		elsewhere := newServer(t)
		h := client(t, wrapped(t, NewFactory(Options{Stderr: io.Discard}), elsewhere.clientConfig(), config))
		if _, err := h.Get(elsewhere.URL); err == nil || !strings.Contains(err.Error(), "malformed external signer answer") {
			t.Errorf("an issuer that is no certificate: %v", err)
		}
	}
}

// alone makes a client with a transport that client-go does not share.
func alone(t *testing.T, c *rest.Config, handshake time.Duration) *http.Client {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(c)
	check(t, err)
	return &http.Client{Transport: c.WrapTransport(&http.Transport{TLSClientConfig: tlsConfig,
		TLSHandshakeTimeout: handshake})}
}

func TestSocketTroubles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*person) string
		says    string
	}{
		"nobody there": {func(p *person) string { return service.Scheme + filepath.Join(p.dir, "nobody") }, "start `kubehsm external-signer serve`"},
		"refused":      {func(p *person) string { p.write("fail", []byte("certificate")); return p.serve() }, ": as told: the connection was refused"},
		"no signature": {func(p *person) string { p.write("fail", []byte("sign")); return p.serve() }, ": as told: the connection was refused"},
		"no answer":    {func(p *person) string { p.write("hang", []byte("sign")); return p.serve() }, "within the 1s that a TLS handshake may take"},
		"babble":       {func(p *person) string { p.write("babble", []byte("certificate")); return p.serve() }, "and no answer"},
		"not a socket": {func(p *person) string { return service.Scheme + filepath.Join(p.dir, "key") }, "nothing listens on the socket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			jane := s.authority.person("jane", newKey(t, "ecdsa-p256"))
			config := s.clientConfig()
			h := alone(t, wrapped(t, NewFactory(Options{Stderr: new(shown)}), config, socketConfig(c.prepare(jane))),
				time.Second)
			got, err := get(t.Context(), h, s.URL)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q, error %v, want one with %q", got, err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "connection refused") {
				t.Errorf("kubectl would blame the API server: %v", err)
			}
		})
	}
}

// TestNoConnection: only where nobody listens is there something to start.
func TestNoConnection(t *testing.T) {
	const start = "nobody answers there: start `kubehsm external-signer serve` ("
	for want, err := range map[string]error{
		start + "there is no such socket)": &net.OpError{Op: "dial", Net: "unix",
			Err: os.NewSyscallError("connect", syscall.ENOENT)},
		start + "nothing listens on the socket)": &net.OpError{Op: "dial", Net: "unix",
			Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"connect: permission denied":      &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)},
		"the other end is another user's": errors.Join(errors.New("the other end is another user's")),
		"too long: choose a shorter path": hint.With(errors.New("too long"), "choose a shorter path"),
	} {
		if got := noConnection(err).Error(); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// foreign is a signer of somebody else, who wants to know the cluster, as the
// prototype's does.
type foreign struct {
	v1alpha1.UnimplementedExternalSignerServiceServer
	*person
}

func (f foreign) GetCertificate(r *v1alpha1.CertificateRequest,
	stream grpc.ServerStreamingServer[v1alpha1.CertificateResponse]) error {
	if err := note(filepath.Join(f.dir, "log"), r.Cluster.Server); err != nil {
		return err
	}
	cert, _, err := readPair(f.dir)
	if err != nil {
		return err
	}
	return stream.Send(&v1alpha1.CertificateResponse{Content: &v1alpha1.CertificateResponse_Certificate{Certificate: cert}})
}

func (f foreign) Sign(r *v1alpha1.SignatureRequest,
	stream grpc.ServerStreamingServer[v1alpha1.SignatureResponse]) error {
	_, key, err := readPair(f.dir)
	if err != nil {
		return err
	}
	pss := r.GetSignerOptsRSAPSS()
	if pss == nil {
		return fmt.Errorf("options %T", r.SignerOpts)
	}
	sig, err := key.Sign(rand.Reader, r.Digest,
		&rsa.PSSOptions{SaltLength: int(pss.SaltLenght), Hash: crypto.Hash(pss.Hash)})
	if err != nil {
		return err
	}
	return errors.Join(note(filepath.Join(f.dir, "log"), r.Cluster.Server),
		stream.Send(&v1alpha1.SignatureResponse{Content: &v1alpha1.SignatureResponse_Signature{Signature: sig}}))
}

func TestForeignSigner(t *testing.T) {
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "rsa-2048"))
	path := filepath.Join(jane.dir, "sock")
	l, err := net.Listen("unix", path)
	check(t, err)
	g := grpc.NewServer()
	v1alpha1.RegisterExternalSignerServiceServer(g, foreign{person: jane})
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	defer func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	wantName(t, client(t, wrapped(t, NewFactory(Options{}), s.clientConfig(), socketConfig(service.Scheme+path))), s.URL,
		"jane")
	if b, err := os.ReadFile(filepath.Join(jane.dir, "log")); err != nil || string(b) != s.URL+"\n"+s.URL+"\n" {
		t.Errorf("the signer was told of the cluster %q, %v", b, err)
	}
}

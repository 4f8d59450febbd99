package provider

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/service"
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
func (p *person) answer(_ context.Context, r externalsigner.Request, tell func(string)) (a externalsigner.Answer,
	err error) {
	what := map[wire.Operation]string{wire.Certificate: "certificate", wire.Sign: "sign"}[r.Operation]
	if err := note(filepath.Join(p.dir, "log"), what); err != nil {
		return a, err
	}
	tell("touch \x1b[31mthe\u202e token\nfor " + what)
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
	s := newServer(t)
	jane := s.authority.person("jane", newKey(t, "rsa-2048"))
	var prompts shown
	f := NewFactory(Options{Stderr: &prompts})
	address := jane.serve()
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

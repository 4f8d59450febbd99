package service

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/v1alpha1"
)

// asks asks for the version with a little patience.
func asks(t *testing.T, c v1alpha1.ExternalSignerServiceClient) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Version(ctx, &v1alpha1.VersionRequest{})
	return err
}

// another connects once more.
func another(t *testing.T, path string) (v1alpha1.ExternalSignerServiceClient, *grpc.ClientConn) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return v1alpha1.NewExternalSignerServiceClient(conn), conn
}

// TestStreams: a client has so many requests under way; others are served all
// the same.
func TestStreams(t *testing.T) {
	began, end := make(chan struct{}, maxStreams), make(chan struct{})
	c, path, _ := serve(t, func(ctx context.Context, _ externalsigner.Request, _ func(string)) (externalsigner.Answer,
		error) {
		began <- struct{}{}
		select {
		case <-end:
		case <-ctx.Done():
		}
		return externalsigner.Answer{Certificate: []byte{1}}, nil
	})
	var streams []grpc.ServerStreamingClient[v1alpha1.CertificateResponse]
	for range maxStreams {
		s, err := c.GetCertificate(t.Context(), &v1alpha1.CertificateRequest{Configuration: config})
		check(t, err)
		streams = append(streams, s)
	}
	for range maxStreams {
		<-began
	}
	if err := asks(t, c); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("one more: %v", err)
	}
	other, _ := another(t, path)
	if _, err := other.Version(t.Context(), &v1alpha1.VersionRequest{}); err != nil {
		t.Errorf("another client: %v", err)
	}
	close(end)
	for _, s := range streams {
		if _, err := s.Recv(); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Version(t.Context(), &v1alpha1.VersionRequest{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestConnections: so many clients are connected at a time; one more has its turn
// when one leaves.
func TestConnections(t *testing.T) {
	first, path, _ := serve(t, nil)
	if _, err := first.Version(t.Context(), &v1alpha1.VersionRequest{}); err != nil {
		t.Fatal(err)
	}
	var last *grpc.ClientConn
	for range maxConns - 1 {
		var c v1alpha1.ExternalSignerServiceClient
		c, last = another(t, path)
		if _, err := c.Version(t.Context(), &v1alpha1.VersionRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	late, _ := another(t, path)
	if err := asks(t, late); err == nil {
		t.Error("one more than may be is served")
	}
	if _, err := first.Version(t.Context(), &v1alpha1.VersionRequest{}); err != nil {
		t.Errorf("who is connected: %v", err)
	}
	check(t, last.Close())
	if _, err := late.Version(t.Context(), &v1alpha1.VersionRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Errorf("when one has left: %v", err)
	}
}

// TestOddRequests: what is not this service's kind of gRPC is refused in words,
// and the connection goes on.
func TestOddRequests(t *testing.T) {
	c, path, _ := serve(t, func(context.Context, externalsigner.Request, func(string)) (externalsigner.Answer, error) {
		t.Error("it was answered")
		return externalsigner.Answer{}, nil
	})
	_, conn := another(t, path)
	for range 2 {
		if err := conn.Invoke(t.Context(), "/v1alpha1.ExternalSignerService/Delete", &v1alpha1.VersionRequest{},
			&v1alpha1.VersionResponse{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("another method: %v", err)
		}
	}
	// Refused by the client, who was told the bound.
	long := metadata.AppendToOutgoingContext(t.Context(), "long", strings.Repeat("a", 2*maxHeader))
	if _, err := c.Version(long, &v1alpha1.VersionRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("a long header: %v", err)
	}
}

// TestPatience: the answer's maker knows how long the client waits, and who it is.
func TestPatience(t *testing.T) {
	c, _, _ := serve(t, func(ctx context.Context, _ externalsigner.Request, _ func(string)) (externalsigner.Answer,
		error) {
		if until, ok := ctx.Deadline(); !ok || time.Until(until) > time.Hour {
			t.Errorf("until %v, %t", until, ok)
		}
		if pid := PeerPID(ctx); pid != os.Getpid() {
			t.Errorf("it came from process %d, not %d", pid, os.Getpid())
		}
		return externalsigner.Answer{Certificate: []byte{1}}, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	s, err := c.GetCertificate(ctx, &v1alpha1.CertificateRequest{Configuration: config})
	check(t, err)
	if _, err := s.Recv(); err != nil {
		t.Error(err)
	}
}

// pipe is a listener of one connection.
type pipe chan net.Conn

// Accept implements [net.Listener].
func (p pipe) Accept() (net.Conn, error) {
	if c := <-p; c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (p pipe) Close() error {
	close(p)
	return nil
}

// Addr implements [net.Listener].
func (pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestSilentClients: a connection that says nothing ends, at once when it never
// did, and later when it may still be used.
func TestSilentClients(t *testing.T) {
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // an empty SETTINGS frame (RFC 9113, section 6.5)
	for says, limit := range map[string]time.Duration{
		"": helloTimeout,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings: idleTimeout,
		"GET / HTTP/1.1\r\nHost: signer\r\n\r\n":      0,
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, end := piped(t, &server{ctx: t.Context()}, keepalive.ServerParameters{MaxConnectionIdle: idleTimeout})
			begin := time.Now()
			go func() { _, _ = io.WriteString(ours, says) }() // the pipe may close early
			_, err := io.Copy(io.Discard, ours)
			if took := time.Since(begin); took < limit || took > limit+time.Minute {
				t.Errorf("%q ended after %v (%v), not %v", says, took, err, limit)
			}
			end()
		})
	}
}

// piped serves one connection, without pings unless k has them: nobody would answer.
func piped(t *testing.T, s *server, k keepalive.ServerParameters) (client net.Conn, end func()) {
	t.Helper()
	ours, theirs := net.Pipe()
	l := make(pipe, 1)
	l <- theirs
	if k.Time == 0 {
		k.Time = 24 * time.Hour
	}
	g := s.grpc(k)
	ended := make(chan error)
	go func() { ended <- g.Serve(l) }()
	return ours, func() {
		t.Helper()
		err := ours.Close()
		g.Stop()
		if err = errors.Join(err, <-ended); err != nil {
			t.Error(err)
		}
	}
}

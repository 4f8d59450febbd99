package bridge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
)

// Server is the loopback side.
type Server struct {
	sessions *Sessions
	route    func(enrollment string) *upstream.Upstream
	log      *slog.Logger
	http     *http.Server
	bodies   *bodies
	busy     busy

	// Denied, if not nil, is told of every request that was turned away. It is set
	// before Serve and may be called by many goroutines at once.
	Denied func(Denial)
	// Consent asks a person, see package consent; nil stands for an error, which is
	// what the client is told. It is set before Serve and may be called by many
	// goroutines at once; ctx ends when the client goes.
	Consent func(ctx context.Context, q Question) error
	// Revived, if not nil, is told of every session that a lock had ended and that has
	// begun again. It is set before Serve and may be called by many goroutines at once.
	Revived func(enrollment string, client Client)
	// Whose finds whose a connection is. It is set before Serve, and only in tests
	// with clients that are made up; nil asks the system.
	Whose Whose
}

// headerTimeout is how long a client may take to say what it wants.
const headerTimeout = 32 * time.Second

// fewConnections is up to how many busy connections a new one speaks HTTP/1.1. It costs less time
// than HTTP/2 for each request and each byte, but each request at the same time needs a connection
// of its own. If more connections are busy, HTTP/2 is offered too: a program that sends many
// requests at once shares one connection for the rest of them.
const fewConnections = 16

// busy are the connections that carry a request or begin, tunnels not counted.
type busy struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note is an [http.Server.ConnState].
func (b *busy) note(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state == http.StateNew || state == http.StateActive {
		b.conns[c] = struct{}{}
	} else {
		delete(b.conns, c)
	}
}

// few tells whether few connections are busy.
func (b *busy) few() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns) <= fewConnections
}

// NewServer returns a server that identifies itself with what cert returns for a
// connection, knows the sessions, and finds an enrollment's upstream by route, which returns nil for
// one that is not prepared.
func NewServer(cert func() *tls.Certificate, sessions *Sessions, route func(enrollment string) *upstream.Upstream,
	log *slog.Logger) *Server {
	s := &Server{sessions: sessions, route: route, log: log, bodies: newBodies(),
		busy: busy{conns: map[net.Conn]struct{}{}}}
	s.http = &http.Server{
		Handler: s,
		TLSConfig: &tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert(), nil },
			ClientAuth:     tls.RequestClientCert,
			MinVersion:     tls.VersionTLS12,
			// For TLS 1.2: Go's own list has suites in CBC mode. The certificate is ECDSA.
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
				tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256},
			NextProtos: []string{"h2", "http/1.1"},
			// No Kubernetes client resumes, and a ticket would outlive a lock.
			SessionTicketsDisabled: true,
			// Small first records are for networks that lose packets.
			DynamicRecordSizingDisabled: true,
		},
		// It bounds the TLS handshake too. It is the API server's own: a program that is
		// busy, with hundreds of connections that it opens at once say, would else be
		// cut off here and not there (ECONNRESET).
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       10 * time.Minute,
		MaxHeaderBytes:    1 << 20,
		// "OPTIONS *" is judged as any other request.
		DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1000,
			// The most that a connection can have, of which one body that waits for a yes takes little.
			MaxReceiveBufferPerConnection: 4<<20 - 1,
			MaxReceiveBufferPerStream:     64 << 10,
		},
		ConnContext: withLine,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	few := s.http.TLSConfig.Clone()
	few.NextProtos = []string{"http/1.1"}
	s.http.TLSConfig.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if s.busy.few() && slices.Contains(hello.SupportedProtos, "http/1.1") {
			return few, nil
		}
		return nil, nil
	}
	s.http.ConnState = s.busy.note
	return s
}

// Serve serves l until [Server.Close]. It returns nil then.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.ServeTLS(newGuard(l, whose), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("bridge: %w", err)
	}
	return nil
}

// Close closes the listener and all connections. Tunnels end with their upstream.
func (s *Server) Close() error { return s.http.Close() }

// ServeHTTP judges a request and carries it upstream.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := strangerOf(r.Context()); err != nil {
		ref := &refusal{http.StatusForbidden, DeniedUser, err.Error()}
		if errors.Is(err, errLook) {
			ref = &refusal{http.StatusServiceUnavailable, "", err.Error()}
		}
		s.refuse(w, r, nil, ref)
		return
	}
	sess, path, ref := s.judge(r)
	if ref != nil {
		s.refuse(w, r, sess, ref)
		return
	}
	who, ref := s.asker(r, sess)
	if ref != nil {
		s.refuse(w, r, sess, ref)
		return
	}
	up := s.route(sess.enrollment)
	if up == nil {
		s.refuse(w, r, sess, &refusal{http.StatusUnauthorized, DeniedLocked, lockedWords})
		return
	}
	if sess.asleep.Load() && who.conn != 0 {
		s.refuse(w, r, sess, &refusal{http.StatusUnauthorized, DeniedUnknown, unknownWords})
		return
	}
	if s.sessions.revive(sess) && s.Revived != nil {
		s.Revived(sess.enrollment, sess.client)
	}
	defer s.sessions.begin(sess)()
	x := exchange{w, r, who}
	r = x.request()
	defer letGo(r)
	if ref := s.consent(x, r, sess, up, path); ref != nil {
		s.refuse(w, r, sess, ref)
		return
	}
	if _, held := r.Body.(*heldBody); !held && r.ContentLength != 0 {
		s.bodies.hold(x, r)
	}
	if err := up.Serve(w, r, path, sess.client); err != nil {
		fail(w, r, err)
	}
}

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// ThroughBridge returns a client that reaches the enrollment's cluster as
// kubectl does. p is asked for what signing in needs, now and when the session
// is renewed.
func (a Access) ThroughBridge(ctx context.Context, name string, p hsm.Prompter) (*csr.Client, error) {
	config, err := a.bridgeConfig(ctx, name, p)
	if err != nil {
		return nil, err
	}
	return clientOf(config)
}

// asking bounds a call through the bridge, which holds a request back as long as a person
// is asked about it: it is longer than any prompt waits, so that the bridge says why it
// did not let the request pass.
const asking = ask.Limit + time.Minute

// clientOf is a client that waits for answers of people where config leads through the
// bridge.
func clientOf(config *rest.Config) (*csr.Client, error) {
	c, err := csr.NewClient(config)
	if err != nil {
		return nil, err
	}
	if _, bridge := config.Transport.(*signIn); bridge {
		c = c.Patient(asking)
	}
	return c, nil
}

// bridgeConfig says how ThroughBridge connects.
func (a Access) bridgeConfig(ctx context.Context, name string, p hsm.Prompter) (*rest.Config, error) {
	s := &signIn{roots: x509.NewCertPool(), looks: p == nil,
		ask:  func(ctx context.Context) (message.Session, error) { return a.session(ctx, name, p) },
		dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return client.DialBridge(ctx, a.Env.Dirs) }}
	if _, err := s.transport(ctx); err != nil {
		return nil, err
	}
	endpoint, err := a.Env.Bridge() // made by the agent, if it was not there
	if err != nil {
		return nil, err
	}
	if !s.roots.AppendCertsFromPEM(endpoint.CAPEM) {
		return nil, errors.New("the bridge's authority is no certificate")
	}
	return &rest.Config{Host: endpoint.URL(name), Timeout: a.Env.RequestTimeout, Transport: s}, nil
}

// session asks the agent for a session. It gives this process the same
// certificate until it is locked or ends.
func (a Access) session(ctx context.Context, name string, p hsm.Prompter) (message.Session, error) {
	if p == nil {
		return a.look(ctx, name)
	}
	c, err := client.EnsureProgram(ctx, a.Env.Dirs, client.Program{Path: a.Env.Executable, Version: a.Env.Version})
	if err != nil {
		return message.Session{}, err
	}
	defer c.Close()
	c.Waiting = a.Env.WaitingOf(ctx)
	s, err := c.Prepare(ctx, client.PrepareRequest{Enrollment: name, Own: true,
		Purpose: hsm.Purpose{Cluster: name, Action: "sign in"}}, p)
	if err == nil && s.Attend {
		err = a.attend(ctx, p)
	}
	return s, err
}

// UnaskedError says that a cluster is not read because somebody would have to be asked, and why. It
// wraps [hsm.ErrPINRequired].
type UnaskedError struct {
	// Why is a sentence without its full stop, such as "the token of prod is locked".
	Why string
}

// Error implements error.
func (e *UnaskedError) Error() string { return e.Why }

// Unwrap returns the sentinel.
func (e *UnaskedError) Unwrap() error { return hsm.ErrPINRequired }

// look is session where nobody is asked: [*UnaskedError] if somebody would have to be. It starts no agent:
// what a new one holds is locked.
func (a Access) look(ctx context.Context, name string) (message.Session, error) {
	c, err := client.Dial(ctx, a.Env.Dirs)
	if errors.Is(err, client.ErrNotRunning) {
		return message.Session{}, &UnaskedError{fmt.Sprintf("the token of %s is locked", name)}
	}
	if err != nil {
		return message.Session{}, err
	}
	defer c.Close()
	s, err := c.Prepare(ctx, client.PrepareRequest{Enrollment: name, Own: true, Look: true}, nil)
	if errors.Is(err, hsm.ErrPINRequired) || errors.Is(err, hsm.ErrNoTerminal) { // the latter of an older agent
		err = &UnaskedError{err.Error()}
	}
	return s, err
}

// attend has p asked about this process's own requests, where the enrollment's
// policy needs a yes for them, for as long as it and the agent run.
func (a Access) attend(ctx context.Context, p hsm.Prompter) error {
	c, err := client.Dial(ctx, a.Env.Dirs)
	if err != nil {
		return err
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer c.Close()
		ended <- c.Attend(context.WithoutCancel(ctx), process.This(), questions(p), func() { close(ready) })
	}()
	select {
	case <-ready:
		return nil
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), c.Close())
	}
}

// questions is p, but does not tell whether a touch would be seen: what a request does
// is asked in words before the touch.
func questions(p hsm.Prompter) ask.Func {
	next := ask.From(p)
	return func(ctx context.Context, q ask.Question) (ask.Answer, error) {
		if q.Reach {
			return ask.Answer{}, hsm.ErrUnsupported
		}
		return next(ctx, q)
	}
}

// renewBefore is how long before a session's end the next one is asked for.
const renewBefore = 30 * time.Second

// signIn keeps a session with the agent alive under a client that runs on,
// such as a wait for approval.
type signIn struct {
	ask   func(context.Context) (message.Session, error)
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	looks bool           // each request asks for a session: what was good a moment ago may take a touch now
	roots *x509.CertPool // the bridge's

	mu      sync.Mutex
	expires time.Time
	cert    []byte          // PEM, of the session
	next    *http.Transport // signs in with it
}

// RoundTrip implements [http.RoundTripper]. A 401 passes, and has the next
// request ask for a new session: the agent was locked, or is another one. So does an agent that
// has gone.
func (s *signIn) RoundTrip(r *http.Request) (*http.Response, error) {
	t, err := s.transport(r.Context())
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized || errors.Is(err, client.ErrNotRunning) {
		s.forget(t)
	}
	return resp, err
}

// transport returns what signs in with a session that is good for a while.
func (s *signIn) transport(ctx context.Context) (*http.Transport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.looks && time.Until(s.expires) > renewBefore {
		return s.next, nil
	}
	session, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	defer clear(session.Key)
	if s.next == nil || !bytes.Equal(session.Certificate, s.cert) {
		pair, err := tls.X509KeyPair(session.Certificate, session.Key)
		if err != nil {
			return nil, err
		}
		if s.next != nil {
			s.next.CloseIdleConnections() // requests in flight come to their end
		}
		s.cert = session.Certificate
		// No proxy: the environment's has no business on loopback.
		s.next = &http.Transport{DialContext: s.dial, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: 10 * time.Second,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.roots, Certificates: []tls.Certificate{pair}}}
	}
	s.expires = session.Expires
	return s.next, nil
}

// forget has the session of t asked for anew.
func (s *signIn) forget(t *http.Transport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == t {
		s.expires = time.Time{}
	}
}

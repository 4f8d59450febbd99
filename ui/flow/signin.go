package flow

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"k8s.io/client-go/rest"
)

// throughBridge returns a client that reaches the enrolment's cluster as
// kubectl does. p is asked for what signing in needs, now and when the session
// is renewed.
func (e *Env) throughBridge(ctx context.Context, name string, p hsm.Prompter) (*csr.Client, error) {
	s := &signIn{env: e, name: name, purpose: hsm.PurposeOf(ctx), prompter: p}
	session, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	endpoint, err := e.bridge()
	if err != nil {
		return nil, err
	}
	return csr.NewClient(&rest.Config{
		Host: endpoint.URL(name),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: endpoint.CAPEM, CertData: session.Certificate, KeyData: session.Key,
		},
		Timeout: e.RequestTimeout,
		// A proxy from the environment has no business on loopback.
		Proxy:         func(*http.Request) (*url.URL, error) { return nil, nil },
		WrapTransport: s.wrap,
	})
}

// signIn keeps a session with the agent alive under a client that runs on,
// such as a wait for approval.
type signIn struct {
	env      *Env
	name     string
	purpose  hsm.Purpose
	prompter hsm.Prompter
	next     http.RoundTripper

	mu      sync.Mutex
	expires time.Time
}

// prepare asks the agent for a session. It gives this process the same
// certificate as long as the agent lives.
func (s *signIn) prepare(ctx context.Context) (agent.Session, error) {
	client, err := agent.Ensure(ctx, s.env.Dirs, s.env.Executable)
	if err != nil {
		return agent.Session{}, err
	}
	defer client.Close()
	session, err := client.Prepare(ctx, agent.PrepareRequest{
		Enrollment: s.name, Client: bridge.ThisProcess(), Purpose: s.purpose,
	}, s.prompter)
	s.expires = session.Expires
	return session, err
}

func (s *signIn) wrap(next http.RoundTripper) http.RoundTripper {
	s.next = next
	return s
}

// RoundTrip implements [http.RoundTripper].
func (s *signIn) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := s.renew(r.Context()); err != nil {
		return nil, err
	}
	return s.next.RoundTrip(r)
}

// renew asks again shortly before the session ends.
func (s *signIn) renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.expires) > 30*time.Second {
		return nil
	}
	_, err := s.prepare(ctx)
	return err
}

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/bridge"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/must"
)

// A client that runs on follows the agent from session to session: an agent
// that was locked, or is another one, knows only the new certificate.
func TestSignInFollowsTheAgent(t *testing.T) {
	ctx := context.Background()
	var current atomic.Pointer[bridge.Credential]
	fresh := func() {
		sessions, err := bridge.NewSessions(time.Now)
		must.OK(t, err)
		c, err := sessions.Issue("prod-hsm", process.This(), nil)
		must.OK(t, err)
		current.Store(&c)
	}
	fresh()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := current.Load()
		pair, err := tls.X509KeyPair(c.Certificate, c.Key)
		if err != nil || len(r.TLS.PeerCertificates) == 0 ||
			string(r.TLS.PeerCertificates[0].Raw) != string(pair.Certificate[0]) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()

	asked := 0
	s := &signIn{roots: x509.NewCertPool(), ask: func(context.Context) (message.Session, error) {
		asked++
		c := current.Load()
		return message.Session{Certificate: c.Certificate, Key: append([]byte(nil), c.Key...), Expires: c.Expires}, nil
	}}
	s.roots.AddCert(server.Certificate())
	get := func(want int) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		must.OK(t, err)
		resp, err := s.RoundTrip(r)
		must.OK(t, err)
		must.OK(t, resp.Body.Close())
		if resp.StatusCode != want {
			t.Fatalf("status %d, want %d", resp.StatusCode, want)
		}
	}
	get(http.StatusOK)
	get(http.StatusOK)
	if asked != 1 {
		t.Errorf("asked for %d sessions while the first was good", asked)
	}
	fresh()
	get(http.StatusUnauthorized)
	get(http.StatusOK)
	if asked != 2 {
		t.Errorf("asked for %d sessions, want 2", asked)
	}
	s.next.CloseIdleConnections()
}

// TestTouchAloneIsNoAnswer: a request of this process is asked about in words, also where
// a touch would be seen.
func TestTouchAloneIsNoAnswer(t *testing.T) {
	var asked ask.Question
	p := questions(ask.Func(func(_ context.Context, q ask.Question) (ask.Answer, error) {
		asked = q
		return ask.Answer{Yes: true}, nil
	}))
	if _, err := p(t.Context(), ask.Question{Reach: true}); !errors.Is(err, hsm.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
	if yes, err := p.Confirm(t.Context(), hsm.ConfirmPrompt{Question: "allow it?"}); !yes || err != nil ||
		asked.Confirm == nil {
		t.Errorf("%t, %v, %+v", yes, err, asked)
	}
}

// TestCallsOutliveQuestions: a call through the bridge waits longer than the bridge asks a
// person about it (two minutes at most), so that it is told that nobody answered.
func TestCallsOutliveQuestions(t *testing.T) {
	var until time.Time
	s := &signIn{ask: func(ctx context.Context) (message.Session, error) {
		until, _ = ctx.Deadline()
		return message.Session{}, errors.New("that was all")
	}}
	c, err := clientOf(&rest.Config{Host: "https://127.0.0.1:1", Transport: s})
	must.OK(t, err)
	if _, err := c.Rights().WhoAmI(t.Context()); err == nil || time.Until(until) <= ask.Limit {
		t.Errorf("%v, and it waits for %v", err, time.Until(until))
	}
}

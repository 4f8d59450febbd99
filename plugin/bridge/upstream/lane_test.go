package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/test/poll"
)

// send sends a request as Serve does and returns the answer.
func send(t *testing.T, up *Upstream, method, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+up.host, strings.NewReader(body))
	check(t, err)
	if body == "" {
		req.Body = nil
	}
	req.URL = up.target(path)
	resp, err := up.transport.RoundTrip(req)
	check(t, err)
	return resp
}

// protocol sends a request, reads the answer and returns the protocol's major version.
func protocol(t *testing.T, up *Upstream, method, path, body string) int {
	t.Helper()
	resp := send(t, up, method, path, body)
	_, err := io.Copy(io.Discard, resp.Body)
	check(t, errors.Join(err, resp.Body.Close()))
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTeapot {
		t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
	return resp.ProtoMajor
}

// withLane returns an upstream with one idle lane.
func withLane(t *testing.T, r *rig) *Upstream {
	t.Helper()
	up := r.upstream(func(*Options) {})
	check(t, up.Check(t.Context()))
	for i := range 2 {
		if got := protocol(t, up, http.MethodGet, "/version", ""); got != 2 {
			t.Fatalf("request %d: HTTP/%d without a lane", i, got)
		}
	}
	poll.Until(t, "a lane is open", func() bool { return idle(up) == 1 })
	return up
}

func idle(up *Upstream) int {
	s := up.transport.lanes
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.idle)
}

// TestLane: short requests that only read use a lane, which costs no signature. The others use
// the HTTP/2 connection.
func TestLane(t *testing.T) {
	r := newRig(t, bridgetest.Options{})
	up := withLane(t, r)
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/version", "", 1}, {"GET", "/bytes?n=100000&chunked=1", "", 1}, {"HEAD", "/version", "", 1},
		{"GET", "/echo?a=b", "", 1}, {"POST", "/echo", "{}", 2}, {"DELETE", "/echo", "", 2}, {"GET", "/echo", "{}", 2},
		{"GET", "/echo?watch=true", "", 2}, {"GET", "/echo/log?follow=true", "", 2}, {"GET", "/api/v1/watch/echo", "", 2},
		{"GET", "/pods/x/proxy/", "", 2}, {"GET", "//echo", "", 2}, {"GET", "/echo?a=b#c", "", 2},
		{"GET", "/trailer", "", 1}, {"GET", "/gzip", "", 1},
	} {
		if got := protocol(t, up, c.method, c.path, c.body); got != c.want {
			t.Errorf("%s %s %s: HTTP/%d", c.method, c.path, c.body, got)
		}
	}
	st := up.Status()
	if st.Signatures != 1 || st.Dials != 1 || st.Connections != 2 || r.api.Full.Load() != 1 || st.LastError != "" {
		t.Errorf("%+v, %d full handshakes", st, r.api.Full.Load())
	}
	up.Reset()
	if idle(up) != 0 {
		t.Error("a lane outlives a reset")
	}
}

// TestLaneThatTheServerHasClosed: the request goes another way.
func TestLaneThatTheServerHasClosed(t *testing.T) {
	r := newRig(t, bridgetest.Options{})
	up := withLane(t, r)
	r.api.CloseClientConnections()
	poll.Until(t, "the pooled connection is gone", func() bool { return !up.Live() })
	if got := protocol(t, up, http.MethodGet, "/version", ""); got != 2 {
		t.Errorf("HTTP/%d", got)
	}
	if st := up.Status(); st.Signatures != 1 || st.LastError != "" {
		t.Errorf("%+v", st)
	}
}

// TestClientLeavesLane: half an answer stays on its lane, which no other request gets.
func TestClientLeavesLane(t *testing.T) {
	r := newRig(t, bridgetest.Options{})
	up := withLane(t, r)
	resp := send(t, up, http.MethodGet, "/bytes?n=10000000", "")
	if resp.ProtoMajor != 1 {
		t.Fatal(resp.Proto)
	}
	check(t, resp.Body.Close())
	if st := up.Status(); idle(up) != 0 || st.Connections != 1 {
		t.Errorf("%d lanes, %+v", idle(up), st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	up = withLane(t, r)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.api.URL, nil)
	check(t, err)
	req.URL = up.target("/hangs")
	failed := make(chan error, 1)
	go func() {
		_, err := up.transport.RoundTrip(req)
		failed <- err
	}()
	poll.Until(t, "the request has arrived", func() bool { return r.api.Hangs.Load() == 1 })
	cancel()
	if err := <-failed; err == nil {
		t.Error("a request that was given up has an answer")
	}
	if n := r.api.Hangs.Load(); n != 1 {
		t.Errorf("the request was sent %d times", n)
	}
}

// TestNoLaneWithoutResumption: a server that wants a signature gets none for a lane, and one that
// wants no certificate does not know whose the lane is.
func TestNoLaneWithoutResumption(t *testing.T) {
	r := newRig(t, bridgetest.Options{})
	up := r.upstream(func(*Options) {})
	check(t, up.Check(t.Context()))
	up.Forget()
	for range 2 {
		protocol(t, up, http.MethodGet, "/version", "")
	}
	poll.Until(t, "the lane is refused", func() bool {
		s := up.transport.lanes
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.refused.IsZero()
	})
	if st := up.Status(); st.Signatures != 1 || st.Dials != 1 || st.Connections != 1 || st.LastError != "" {
		t.Errorf("%+v", st)
	}
	anybody := httptest.NewTLSServer(http.NotFoundHandler())
	defer anybody.Close()
	up = r.upstream(func(o *Options) {
		o.Enrollment.Cluster.Server, o.Enrollment.Cluster.CAData = anybody.URL, nil
		o.Enrollment.Cluster.InsecureSkipTLSVerify = true
	})
	if _, err := up.conns.dial(t.Context(), nil, false, "http/1.1"); !errors.Is(err, errNotResumed) {
		t.Error(err)
	}
}

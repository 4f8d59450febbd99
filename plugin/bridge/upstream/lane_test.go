package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		{"GET", "/echo?watch=true", "", 2}, {"GET", "/echo/log?follow=true", "", 2}, {"GET", "/echo/log", "", 2},
		{"GET", "/api/v1/watch/echo", "", 2}, {"GET", "/pods/x/proxy/", "", 2}, {"GET", "//echo", "", 2},
		{"GET", "/echo?a=b#c", "", 2}, {"GET", "/trailer", "", 1}, {"GET", "/gzip", "", 1},
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

// TestLanesLeaveAShare: however often short reads come, the HTTP/2 connection gets one of them in less
// than the 90 s after which an API server closes it, and the lanes get the others.
func TestLanesLeaveAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lanes{}
		l := &lane{of: s}
		l.due = time.AfterFunc(laneIdle, func() { t.Error("the lane is not used") })
		defer l.due.Stop()
		s.put(l)
		last, shared := time.Now(), 0
		for range 600 / 5 {
			if got := s.take(); got != nil {
				s.put(got)
			} else {
				last, shared = time.Now(), shared+1
			}
			if gap := time.Since(last); gap >= 60*time.Second {
				t.Fatalf("the HTTP/2 connection carries nothing for %v", gap)
			}
			time.Sleep(5 * time.Second)
		}
		if shared > 600/30+1 || !s.missed.IsZero() {
			t.Errorf("%d of 120 requests left an idle lane, missed at %v", shared, s.missed)
		}
	})
}

// TestLongAnswerOnLane: an answer on a lane outlasts a reset and the end of the HTTP/2 connection, but
// not the server's.
func TestLongAnswerOnLane(t *testing.T) {
	const size = 32 << 20 // more than the sockets hold
	for name, tc := range map[string]struct {
		happens func(t *testing.T, r *rig, up *Upstream)
		cut     bool
	}{
		"nothing": {func(*testing.T, *rig, *Upstream) {}, false},
		"reset, then nothing listens": {func(t *testing.T, r *rig, up *Upstream) {
			up.Reset()
			check(t, r.api.Listener.Close())
		}, false},
		"goaway": {goAway, false},
		"goaway, then the server ends": {func(t *testing.T, r *rig, up *Upstream) {
			goAway(t, r, up)
			check(t, r.api.Listener.Close())
		}, true},
		"lost ping": {losePing, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, bridgetest.Options{})
			up := withLane(t, r)
			resp := send(t, up, http.MethodGet, "/bytes?n="+strconv.Itoa(size), "")
			body, ok := resp.Body.(*laneBody)
			if !ok {
				t.Fatal(resp.Proto)
			}
			tc.happens(t, r, up)
			body.lane.overdue()
			n, err := io.Copy(io.Discard, body)
			if cut := err != nil; cut != tc.cut || !cut && n != size {
				t.Errorf("%d bytes, %v", n, err)
			}
			check(t, body.Close())
			if st := up.Status(); st.Signatures != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// goAway has the API server end the HTTP/2 connection.
func goAway(t *testing.T, _ *rig, up *Upstream) {
	protocol(t, up, http.MethodPost, "/goaway", "{}")
	poll.Until(t, "the HTTP/2 connection is gone", func() bool { return !up.Live() })
}

// losePing has the HTTP/2 transport ping a server that says nothing.
func losePing(t *testing.T, _ *rig, up *Upstream) {
	near, far := net.Pipe()
	defer far.Close()
	go func() { _, _ = io.Copy(io.Discard, far) }() // ends with the connection
	h2 := up.transport.h2
	h2.ReadIdleTimeout, h2.PingTimeout = time.Millisecond, time.Millisecond
	_, err := h2.NewClientConn(near)
	check(t, err)
	s := up.transport.lanes
	poll.Until(t, "the ping is lost", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.lost > 0
	})
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

package bridge

import (
	"bufio"
	"context"
	"crypto"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestHundredClientsOneSignature(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http1=%v", http1), func(t *testing.T) {
			r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: http1}})
			check(t, r.up.Check(context.Background()))
			for i := range 100 {
				c := r.client(r.issue("prod", Client{PID: 100 + i, Start: 1}))
				if code, body := r.get(c, "/version"); code != 200 || !strings.Contains(body, "v1.37.1") {
					t.Fatalf("%d %s", code, body)
				}
				c.CloseIdleConnections()
			}
			if st := r.up.Status(); st.Signatures != 1 || st.Requests != 100 {
				t.Fatalf("%+v", st)
			}
			if n := r.api.Full.Load(); n != 1 {
				t.Fatalf("%d full handshakes", n)
			}
		})
	}
}

// TestProtocols: few busy connections speak HTTP/1.1. Further ones speak HTTP/2, and idle ones do
// not count.
func TestProtocols(t *testing.T) {
	r := newRig(t, rigOptions{})
	check(t, r.up.Check(t.Context()))
	cred := r.issue("prod", Client{})
	begin := func() *http.Response {
		resp, err := r.client(cred).Get(r.ep.URL("prod") + "/watch")
		check(t, err)
		return resp
	}
	for range fewConnections + 1 {
		r.get(r.client(cred), "/version") // leaves an idle connection
	}
	var watches []*http.Response
	for i := range fewConnections + 2 {
		watches = append(watches, begin())
		if got, want := watches[i].ProtoMajor, 1+i/fewConnections; got != want {
			t.Errorf("connection %d: HTTP/%d, want HTTP/%d", i, got, want)
		}
	}
	for _, w := range watches {
		check(t, w.Body.Close())
	}
	poll.Until(t, "a new connection speaks HTTP/1.1", func() bool {
		w := begin()
		check(t, w.Body.Close())
		return w.ProtoMajor == 1
	})
}

func TestColdBurstOneSignature(t *testing.T) {
	for _, proto := range []string{"h2", "http/1.1"} {
		t.Run(proto, func(t *testing.T) {
			release := make(chan struct{})
			r := newRig(t, rigOptions{delay: func() { <-release }})
			cfg := r.tls(r.issue("prod", Client{}), proto)
			var wg sync.WaitGroup
			codes := make(chan int, 20)
			for range 20 {
				wg.Go(func() {
					tr := &http.Transport{TLSClientConfig: cfg.Clone(), ForceAttemptHTTP2: proto == "h2"}
					defer tr.CloseIdleConnections()
					resp, err := (&http.Client{Transport: tr}).Get(r.ep.URL("prod") + "/version")
					if err != nil {
						t.Error(err)
						return
					}
					codes <- resp.StatusCode
					_ = resp.Body.Close()
				})
			}
			poll.Until(t, "20 requests wait", func() bool { return r.up.Status().InFlight == 20 })
			close(release)
			wg.Wait()
			close(codes)
			for code := range codes {
				if code != 200 {
					t.Fatalf("status %d", code)
				}
			}
			if st := r.up.Status(); st.Signatures != 1 || st.Dials != 1 {
				t.Fatalf("%+v", st)
			}
		})
	}
}

func TestEverythingPasses(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		for _, clientProto := range []string{"h2", "http/1.1"} {
			t.Run(fmt.Sprintf("upstream http1=%v, client %s", http1, clientProto), func(t *testing.T) {
				r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: http1}, prefix: "/k8s/clusters/c-1"})
				tr := &http.Transport{TLSClientConfig: r.tls(r.issue("prod", Client{}), clientProto),
					ForceAttemptHTTP2: clientProto == "h2", DisableCompression: true}
				defer tr.CloseIdleConnections()
				const target = "/api/v1/a%2Fb/%7Bx%7D;p=1?labelSelector=a%3Db&x=%20+"
				req, err := http.NewRequest("PATCH", r.ep.URL("prod")+target, strings.NewReader("the body"))
				check(t, err)
				for k, v := range map[string]string{"User-Agent": "kubectl/v1.37", "Impersonate-User": "bob",
					"Accept-Encoding":           "gzip",
					"X-Stream-Protocol-Version": "v4", "Connection": "X-Hop, keep-alive", "X-Hop": "1", "Keep-Alive": "5", "Te": "trailers"} {
					if clientProto == "h2" && (k == "Connection" || k == "Keep-Alive" || k == "X-Hop") {
						continue
					}
					req.Header.Set(k, v)
				}
				resp, err := tr.RoundTrip(req)
				check(t, err)
				defer resp.Body.Close()
				var got bridgetest.Arrived
				check(t, json.NewDecoder(resp.Body).Decode(&got))
				if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Upstream") != "yes" {
					t.Errorf("%d %v", resp.StatusCode, resp.Header)
				}
				if got.Method != "PATCH" || got.Target != "/k8s/clusters/c-1"+target ||
					got.Host != strings.TrimPrefix(r.api.URL, "https://") || got.User != "alice" || got.Body != "the body" {
					t.Errorf("%+v", got)
				}
				for k, want := range map[string]string{"User-Agent": "kubectl/v1.37", "Impersonate-User": "bob",
					"Accept-Encoding":           "gzip",
					"X-Stream-Protocol-Version": "v4", "X-Hop": "", "Keep-Alive": "", "Connection": "", "X-Forwarded-For": "", "Te": "trailers"} {
					if v := got.Header.Get(k); v != want {
						t.Errorf("%s = %q, want %q", k, v, want)
					}
				}
			})
		}
	}
}

func TestOddTargets(t *testing.T) {
	r := newRig(t, rigOptions{})
	cfg := r.tls(r.issue("prod", Client{}), "http/1.1")
	for in, want := range map[string]string{
		"/c/prod": "/", "/c/prod/": "/", "/c/prod?a=b": "/?a=b", "/c/prod//x": "//x", "/c/prod/a//b/": "/a//b/",
		"/c/prod/x/../y": "/x/../y", "/c/prod/%2e%2e/x": "/%2e%2e/x", "/c/prod/a%zz?": "",
	} {
		c, err := tls.Dial("tcp", r.ep.Address(), cfg)
		check(t, err)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", in)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		check(t, err)
		var got bridgetest.Arrived
		b, err := io.ReadAll(resp.Body)
		check(t, err)
		check(t, c.Close())
		if want == "" {
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", in, resp.Status)
			}
			continue
		}
		if err := json.Unmarshal(b, &got); err != nil || got.Target != want {
			t.Errorf("%s: upstream saw %q (%v), want %q", in, got.Target, err, want)
		}
		if got.Header["User-Agent"] != nil {
			t.Errorf("a user agent was made up: %v", got.Header)
		}
	}
}

func TestBodiesAndTrailers(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: http1}})
		c := r.client(r.issue("prod", Client{}))
		for _, path := range []string{"/bytes?n=0", "/bytes?n=5000000", "/bytes?n=5000000&chunked=1"} {
			resp, err := c.Get(r.ep.URL("prod") + path)
			check(t, err)
			n, err := io.Copy(io.Discard, resp.Body)
			check(t, err)
			check(t, resp.Body.Close())
			if want := map[bool]int64{true: 0, false: 5000000}[strings.HasSuffix(path, "=0")]; n != want {
				t.Errorf("%s: %d bytes", path, n)
			}
		}
		resp, err := c.Get(r.ep.URL("prod") + "/trailer")
		check(t, err)
		_, err = io.ReadAll(resp.Body)
		check(t, err)
		check(t, resp.Body.Close())
		if resp.Trailer.Get("X-Sum") != "42" {
			t.Errorf("trailer = %v", resp.Trailer)
		}
		up, err := c.Post(r.ep.URL("prod")+"/upload", "application/octet-stream", io.LimitReader(zeros{}, 8<<20))
		check(t, err)
		b, err := io.ReadAll(up.Body)
		check(t, err)
		check(t, up.Body.Close())
		if string(b) != "8388608 <nil>" {
			t.Errorf("upload: %s", b)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Half an answer must not look whole.
func TestAbortedAnswer(t *testing.T) {
	r := newRig(t, rigOptions{})
	resp, err := r.client(r.issue("prod", Client{})).Get(r.ep.URL("prod") + "/abort")
	check(t, err)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Fatalf("%q looked whole", b)
	}
}

func TestWatchFlushesAndCancels(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: http1}})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.ep.URL("prod")+"/watch", nil)
		check(t, err)
		resp, err := r.client(r.issue("prod", Client{})).Do(req) // headers come before any event
		check(t, err)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for _, want := range []string{"one\n", "two\n"} {
			r.api.Send(strings.TrimSpace(want))
			if got, err := lines.ReadString('\n'); got != want || err != nil {
				t.Fatalf("%q %v", got, err)
			}
		}
		// A session that expires does not end it.
		r.clock.advance(time.Hour)
		r.sessions.Sweep()
		r.api.Send("three")
		if got, err := lines.ReadString('\n'); got != "three\n" || err != nil {
			t.Fatalf("%q %v", got, err)
		}
		cancel()
		poll.Until(t, "the watch ends upstream", func() bool { return r.api.Watchers() == 0 })
		poll.Until(t, "nothing is in flight", func() bool { return r.up.Status().InFlight == 0 })
	}
}

func upgrade(t testing.TB, r *rig) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	c, err := tls.Dial("tcp", r.ep.Address(), r.tls(r.issue("prod", Client{}), "http/1.1"))
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	fmt.Fprint(c,
		"POST /c/prod/upgrade HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\nContent-Length: 0\r\n\r\n")
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	check(t, err)
	if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "echo" || resp.Header.Get("X-Protocol") != "v5" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	return c, br
}

func TestUpgradeSplicesWithHalfClose(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: http1}})
		check(t, r.up.Check(context.Background()))
		c, br := upgrade(t, r)
		fmt.Fprint(c, "hi\n")
		for _, want := range []string{"hello\n", "echo: hi\n"} { // hello came with the 101
			if got, err := br.ReadString('\n'); got != want || err != nil {
				t.Fatalf("%q %v", got, err)
			}
		}
		check(t, c.CloseWrite())
		if got, err := io.ReadAll(br); string(got) != "bye\n" || err != nil {
			t.Fatalf("%q %v", got, err)
		}
		if st := r.up.Status(); st.Signatures != 1 || st.Resumed != 1 {
			t.Fatalf("the tunnel cost a signature: %+v", st)
		}
	}
}

// TestEndlessHead: a server's answer to an upgrade is not kept in memory for as long
// as its head goes on.
func TestEndlessHead(t *testing.T) {
	r := newRig(t, rigOptions{})
	if code, body := r.notUpgraded("/endless"); code != http.StatusServiceUnavailable || !strings.Contains(body, "too long") {
		t.Errorf("%d %s", code, body)
	}
	if n := r.api.Endless.Load(); n > bridgetest.MaxEndless/2 {
		t.Errorf("%d bytes were taken", n)
	}
}

func TestUpgradeRefusedUpstream(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.api.Reject.Store(true)
	if code, body := r.notUpgraded("/upgrade"); code != 401 || !strings.Contains(body, "Unauthorized") || !r.up.Rejected() {
		t.Fatalf("%d %s", code, body)
	}
}

// notUpgraded asks for an upgrade that comes to nothing.
func (r *rig) notUpgraded(path string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.ep.URL("prod")+path, nil)
	check(r.t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := r.speaking("http/1.1").RoundTrip(req)
	check(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(r.t, err)
	return resp.StatusCode, string(b)
}

func TestCloseCutsStreamsAndTunnels(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.client(r.issue("prod", Client{}))
	resp, err := c.Get(r.ep.URL("prod") + "/watch")
	check(t, err)
	defer resp.Body.Close()
	_, br := upgrade(t, r)
	_, err = br.ReadString('\n')
	check(t, err)
	r.up.Close()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the watch ended as if it were whole")
	}
	if b, _ := io.ReadAll(br); len(b) > 0 {
		t.Errorf("the tunnel still said %q", b)
	}
	poll.Until(t, "nothing is open upstream",
		func() bool { return r.up.Status().Connections == 0 && r.up.Status().InFlight == 0 })
	code, body := r.get(c, "/version")
	if code != 401 {
		t.Fatalf("%d %s", code, body)
	}
	refused(t, body, 401, "closed by the agent")
}

// cutters are the ways from a client to the API server, by their protocols.
func cutters(t *testing.T, test func(t *testing.T, r *rig, c *http.Client)) {
	for _, upstream := range []bool{false, true} {
		for _, client := range []string{"h2", "http/1.1"} {
			t.Run(fmt.Sprintf("%s, upstream HTTP/1.1 %t", client, upstream), func(t *testing.T) {
				r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: upstream}})
				c := r.client(r.issue("prod", Client{}))
				if client == "http/1.1" {
					c.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
				}
				test(t, r, c)
			})
		}
	}
}

// TestDeathOfTheServerEndsWatches: the API server's death cuts its connections.
// client-go ends a watch in silence then, and makes up an event of a reset stream.
func TestDeathOfTheServerEndsWatches(t *testing.T) {
	const event = `{"type":"ADDED"}` + "\n"
	for _, sent := range []string{event, event + `{"type":`, ""} {
		cutters(t, func(t *testing.T, r *rig, c *http.Client) {
			resp, err := c.Get(r.ep.URL("prod") + "/api/v1/watch/pods")
			check(t, err)
			defer resp.Body.Close()
			body := bufio.NewReader(resp.Body)
			if sent != "" {
				r.api.SendRaw(sent)
				_, err := body.Peek(len(sent))
				check(t, err)
			}
			r.api.CloseClientConnections()
			b, err := io.ReadAll(body)
			if string(b) != sent || err != nil {
				t.Errorf("the watch of %q ends as %q, %v", sent, b, err)
			}
		})
	}
}

// TestDeathOfTheServerCutsAnswers: a list that is cut must not look whole, nor a
// stream that the API server itself has reset.
func TestDeathOfTheServerCutsAnswers(t *testing.T) {
	for _, path := range []string{"/bytes?n=1000000000", "/bytes?n=1000000000&chunked=1", "/watch"} {
		cutters(t, func(t *testing.T, r *rig, c *http.Client) {
			resp, err := c.Get(r.ep.URL("prod") + path)
			check(t, err)
			defer resp.Body.Close()
			if path == "/watch" {
				r.api.Send("a line of a log")
			}
			_, err = io.ReadFull(resp.Body, make([]byte, 10))
			check(t, err)
			r.api.CloseClientConnections()
			if n, err := io.Copy(io.Discard, resp.Body); err == nil {
				t.Errorf("%s: %d bytes looked whole", path, n)
			}
		})
	}
	r := newRig(t, rigOptions{})
	resp, err := r.client(r.issue("prod", Client{})).Get(r.ep.URL("prod") + "/api/v1/watch/resets")
	check(t, err)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("a stream that was reset ended as %q", b)
	}
}

// TestCutWatchSaysWhy: a watch of objects ends with an event that says why, as
// the API server ends one itself, but not within another event.
func TestCutWatchSaysWhy(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: http1}})
			resp, err := r.client(r.issue("prod", Client{})).Get(r.ep.URL("prod") + "/api/v1/watch/pods")
			check(t, err)
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			event := `{"type":"ADDED"}`
			r.api.Send(event)
			if got, err := lines.ReadString('\n'); got != event+"\n" || err != nil {
				t.Fatalf("%q %v", got, err)
			}
			if half {
				r.api.SendRaw(`{"type":`)
				if got, err := lines.Peek(8); err != nil {
					t.Fatalf("%q %v", got, err)
				}
			}
			r.up.Close()
			rest, err := io.ReadAll(lines)
			if half {
				if string(rest) != `{"type":` || err != nil {
					t.Errorf("half an event ended as %q, %v", rest, err)
				}
				continue
			}
			var last struct {
				Type   string
				Object json.RawMessage
			}
			if err != nil || json.Unmarshal(rest, &last) != nil || last.Type != "ERROR" {
				t.Fatalf("%q %v", rest, err)
			}
			refused(t, string(last.Object), 401, "the watch was ended: the connection was closed by the agent")
		}
	}
}

// TestDiscoveryIsToldInText: client-go's discovery shows no Status's message.
func TestDiscoveryIsToldInText(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.client(r.issue("test", Client{}))
	for path, text := range map[string]bool{"/api": true, "/apis": true, "/api/v1": true, "/apis/apps/v1": true,
		"/openapi/v3?x=y": true,
		"/api/v1/pods":    false, "/apis/apps/v1/deployments": false, "/version": false} {
		resp, err := c.Get(r.ep.URL("prod") + path)
		check(t, err)
		b, err := io.ReadAll(resp.Body)
		check(t, errors.Join(err, resp.Body.Close()))
		if got := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"); got != text || resp.StatusCode != 403 ||
			!strings.Contains(string(b), "the kubeconfig entry mixes two") {
			t.Errorf("%s: %s %s %s", path, resp.Status, resp.Header.Get("Content-Type"), b)
		}
	}
	resp, err := r.client(nil).Get(r.ep.URL("prod") + "/api")
	check(t, err)
	check(t, resp.Body.Close())
	warnings, errs := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	if resp.StatusCode != 401 || len(errs) > 0 || len(warnings) != 1 ||
		!strings.Contains(warnings[0].Text, "kubehsm: no client certificate came with the request") {
		t.Errorf("%s %v %v", resp.Status, warnings, errs)
	}
}

func TestFailuresInWords(t *testing.T) {
	t.Run("locked", func(t *testing.T) {
		r := newRig(t, rigOptions{signer: func(context.Context) (crypto.Signer, error) { return nil, hsm.ErrPINRequired }})
		code, body := r.get(r.client(r.issue("prod", Client{})), "/version")
		refused(t, body, 401, "PIN")
		if code != 401 {
			t.Fatal(code)
		}
	})
	t.Run("down", func(t *testing.T) {
		r := newRig(t, rigOptions{})
		r.api.Close()
		code, body := r.get(r.client(r.issue("prod", Client{})), "/version")
		refused(t, body, 503, strings.TrimPrefix(r.api.URL, "https://"))
		if code != 503 {
			t.Fatal(code)
		}
		if err := r.up.Reach(context.Background()); !errors.Is(err, upstream.ErrUnreachable) || hint.Of(err) == "" {
			t.Fatal(err)
		}
	})
}

func TestServerRestartResumesOrSignsOnce(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.client(r.issue("prod", Client{}))
	r.get(c, "/version")
	r.api.CloseClientConnections() // idle connections end; TLS tickets stay good
	poll.Until(t, "the connection is seen to be gone", func() bool { return !r.up.Live() })
	if code, body := r.get(c, "/version"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if st := r.up.Status(); st.Signatures != 1 || st.Dials != 2 || st.Resumed != 1 {
		t.Fatalf("%+v", st)
	}
	r.up.Forget()
	r.up.Reset()
	if code, body := r.get(c, "/version"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if st := r.up.Status(); st.Signatures != 2 {
		t.Fatalf("%+v", st)
	}
}

func TestThroughProxy(t *testing.T) {
	var connects []string
	var mu sync.Mutex
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		connects = append(connects, r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		up, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
		go func() { _, _ = io.Copy(c, up); _ = c.Close() }()
	}))
	defer proxy.Close()
	r := newRig(t, rigOptions{proxy: strings.Replace(proxy.URL, "http://", "http://me:secret@", 1)})
	if code, body := r.get(r.client(r.issue("prod", Client{})), "/version"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "CONNECT " + strings.TrimPrefix(r.api.URL, "https://") + " Basic bWU6c2VjcmV0"; len(connects) != 1 ||
		connects[0] != want {
		t.Fatalf("%q, want %q", connects, want)
	}
	proxy.Close()
	r.up.Reset()
	err := r.up.Reach(context.Background())
	if !errors.Is(err, upstream.ErrUnreachable) || strings.Contains(err.Error()+hint.Of(err), "secret") {
		t.Fatalf("%v %s", err, hint.Of(err))
	}
}

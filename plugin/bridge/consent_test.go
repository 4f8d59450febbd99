package bridge

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/consent"
)

// questions is a person who says no to everything, and is told what is asked.
type questions struct {
	mu    sync.Mutex
	asked []string
	yes   bool
}

func (q *questions) ask(_ context.Context, about Question) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = append(q.asked, about.Request.String())
	if q.yes {
		return nil
	}
	return errors.New("it was refused")
}

func (q *questions) all() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.asked)
}

// since is what one case of many has had asked, and had arrive at the API server.
func (q *questions) since(r *rig) (end func() (asked, arrived []string)) {
	before, there := len(q.all()), len(r.api.Arrivals())
	return func() (asked, arrived []string) { return q.all()[before:], r.api.Arrivals()[there:] }
}

// judged is a rig whose policy asks for all that is more than a look.
func judged(t *testing.T, api bridgetest.Options, yes bool) (*rig, *questions) {
	t.Helper()
	q := &questions{yes: yes}
	return newRig(t, rigOptions{api: api, policy: consent.Policy{Mode: consent.Writes}, ask: q.ask}), q
}

// way is a judged rig by what its API server speaks.
type way struct {
	*rig
	name string
	q    *questions
}

func judgedWays(t *testing.T) (all []way) {
	for name, http1 := range map[string]bool{"HTTP/1.1": true, "HTTP/2": false} {
		r, q := judged(t, bridgetest.Options{HTTP1: http1}, false)
		all = append(all, way{r, name, q})
	}
	return all
}

// raw sends text over one HTTP/1.1 connection and returns the status codes of
// the answers that come until the bridge closes it.
func (r *rig) raw(text string) (codes []int) {
	r.t.Helper()
	conn, err := tls.Dial("tcp", r.ep.Address(), r.tls(r.issue("prod", Client{PID: 1, Start: 1}), "http/1.1"))
	check(r.t, err)
	defer conn.Close()
	check(r.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, strings.ReplaceAll(text, "HOST", r.ep.Address()))
	check(r.t, err)
	br := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return codes
		}
		codes = append(codes, resp.StatusCode)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return codes
		}
	}
}

// TestNothingIsSmuggled: a server that speaks HTTP/1.1 alone gets the requests
// that were judged, and no others, however one is dressed up as part of another.
func TestNothingIsSmuggled(t *testing.T) {
	r, q := judged(t, bridgetest.Options{HTTP1: true}, false)
	const hidden = "DELETE /api/v1/namespaces/web/pods/p HTTP/1.1\r\nHost: HOST\r\n\r\n"
	for _, c := range []struct{ name, text string }{
		{"length and chunks", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden},
		{"chunks and length", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nContent-Length: 600\r\n\r\n0\r\n\r\n" + hidden},
		{"two lengths", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Length: 0\r\nContent-Length: 90\r\n\r\n" + hidden},
		{"a length with a sign", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Length: +9\r\n\r\n" + hidden},
		{"chunks twice", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden},
		{"unknown coding", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden},
		{"chunk extension", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1;x=\"\r\n\r\n" + hidden + "\"\r\nx\r\n0\r\n\r\n"},
		{"chunk that ends by LF", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n" + hidden},
		{"body of a look", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Length: 400\r\n\r\n" + hidden + strings.Repeat("x", 400-len(hidden))},
		{"folded header", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nX-A: b\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden},
		{"lines that end by LF", "GET /c/prod/api/v1/pods HTTP/1.1\nHost: HOST\nConnection: close\nContent-Length: 0\n\n" + hidden},
		{"a CR alone", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nX-A: b\rTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + hidden},
		{"space before the colon", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding : chunked\r\nConnection: close\r\n\r\n0\r\n\r\n" + hidden},
		{"two hosts", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\nConnection: close\r\n\r\n"},
		{"a second protocol in the line", "GET /c/prod/api/v1/pods HTTP/1.1 HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"},
		{"HTTP/0.9", "GET /c/prod/api/v1/pods\r\n\r\n" + hidden},
		{"a whole URL", "DELETE https://HOST/c/prod/api/v1/namespaces/web/pods/p HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"},
		{"one after another", "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\n\r\nDELETE /c/prod/api/v1/namespaces/web/pods/p HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"},
	} {
		end := q.since(r)
		codes := r.raw(c.text)
		asked, arrived := end()
		if len(arrived) > 1 || len(arrived) == 1 && arrived[0] != "GET /api/v1/pods" {
			t.Errorf("%s: %q arrived; answers %v, asked %q", c.name, arrived, codes, asked)
		}
	}
}

// TestNoWayAroundConsent: requests that change something, or connect, or could
// be taken for such, come to a person or are not served.
func TestNoWayAroundConsent(t *testing.T) {
	ways := judgedWays(t)
	for _, c := range []struct {
		name, method, target, headers string
		asked                         string // "": not served without anybody being asked
	}{
		{"plainly", "DELETE", "/c/prod/api/v1/namespaces/web/pods/p", "", `delete pods "p" in "web"`},
		{"without the enrollment's name", "DELETE", "/api/v1/namespaces/web/pods/p", "", `delete pods "p" in "web"`},
		{"as a dry run that is none", "DELETE", "/c/prod/api/v1/namespaces/web/pods/p?dryRun=All&dryRun=x", "", `delete pods "p" in "web"`},
		{"encoded slash", "GET", "/c/prod/api/v1/namespaces/web%2fpods%2fp%2fexec?command=id", "", ""},
		{"dot segments", "GET", "/c/prod/api/v1/namespaces/web/pods/p/log/../exec?command=id", "", ""},
		{"empty segment", "GET", "/c/prod//api/v1/namespaces/web/pods/p/exec", "", ""},
		{"parameters", "GET", "/c/prod/api/v1/namespaces/web/pods/p;x/exec", "", ""},
		{"overridden method", "GET", "/c/prod/api/v1/namespaces/web/pods/p", "X-HTTP-Method-Override: DELETE\r\n", ""},
		{"overridden method with underscores", "GET", "/c/prod/api/v1/namespaces/web/pods/p", "X_HTTP_Method_Override: DELETE\r\n", ""},
		{"rewritten path", "GET", "/c/prod/version", "X-Original-URL: /api/v1/namespaces/web/pods/p/exec\r\n", ""},
		{"a header that is taken away", "GET", "/c/prod/api/v1/pods", "Impersonate-User: root\r\nConnection: Impersonate-User, close\r\n", ""},
		{"impersonation", "GET", "/c/prod/api/v1/pods", "Impersonate-User: root\r\n", `list pods everywhere as "root"`},
		{"impersonation with an underscore", "GET", "/c/prod/api/v1/pods", "Impersonate_User: root\r\n", `list pods everywhere as Impersonate_user "root"`},
		{"overridden method by another name", "GET", "/c/prod/api/v1/namespaces/web/pods/p", "X-Original-Method: DELETE\r\n", ""},
		{"method as a form's field", "GET", "/c/prod/api/v1/namespaces/web/pods/p", "_method: DELETE\r\n", ""},
		{"forwarded path", "GET", "/c/prod/version", "X-Forwarded-Uri: /api/v1/namespaces/web/pods/p/exec\r\n", ""},
		{"all in one segment", "GET", "/c/prod/api%2Fv1%2Fnamespaces%2Fweb%2Fpods%2Fp%2Fexec?command=id", "", ""},
		{"a look with a body", "GET", "/c/prod/api/v1/pods", "Content-Length: 2\r\n", ""},
		{"a look with a chunk", "GET", "/c/prod/api/v1/pods", "Transfer-Encoding: chunked\r\n", ""},
		{"a head with a body", "HEAD", "/c/prod/api/v1/pods", "Content-Length: 2\r\n", ""},
		{"impersonation in a trailer", "GET", "/c/prod/api/v1/pods", "Transfer-Encoding: chunked\r\nTrailer: Impersonate-User\r\n", ""},
		{"exec as a look", "GET", "/c/prod/api/v1/namespaces/web/pods/p/exec?command=id", "", `get pods/exec "p" in "web"`},
		{"exec over a WebSocket", "GET", "/c/prod/api/v1/namespaces/web/pods/p/exec?command=id", "Connection: Upgrade\r\nUpgrade: websocket\r\n", `get pods/exec "p" in "web"`},
		{"HTTP/2 in clear text", "GET", "/c/prod/api/v1/pods", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n", ""},
		{"HTTP/2 in clear text, half asked for", "GET", "/c/prod/api/v1/pods", "Connection: Upgrade\r\nUpgrade: h2c\r\n", ""},
		{"a watch over a WebSocket", "GET", "/c/prod/api/v1/pods?watch=1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "watch pods everywhere (over websocket)"},
		{"a deletion as a connection", "DELETE", "/c/prod/api/v1/namespaces/web/pods/p", "Connection: upgrade\r\n", ""},
		{"a deletion over a WebSocket", "DELETE", "/c/prod/api/v1/namespaces/web/pods/p", "Connection: Upgrade\r\nUpgrade: websocket\r\n", ""},
		{"a change over SPDY", "POST", "/c/prod/api/v1/namespaces/web/pods", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 2\r\n", ""},
		{"a deletion as a watch", "DELETE", "/c/prod/api/v1/watch/namespaces/web/pods/p", "", ""},
		{"a command by a kubelet", "POST", "/c/prod/api/v1/nodes/n/proxy/run/web/p/c?cmd=id", "", `create nodes/proxy "n" at "/run/web/p/c"`},
		{"an unknown method", "PROPPATCH", "/c/prod/api/v1/pods", "", ""},
		{"CONNECT", "CONNECT", "/c/prod/api/v1/pods", "", ""},
		{"OPTIONS", "OPTIONS", "/c/prod/api/v1/pods", "", "send pods"},
	} {
		for _, w := range ways {
			body := ""
			switch {
			case strings.Contains(c.headers, "Content-Length"):
				body = "{}"
			case c.headers == "Transfer-Encoding: chunked\r\n":
				body = "2\r\n{}\r\n0\r\n\r\n"
			case strings.Contains(c.headers, "chunked"):
				body = "0\r\nImpersonate-User: root\r\n\r\n"
			}
			end := w.q.since(w.rig)
			codes := w.raw(c.method + " " + c.target + " HTTP/1.1\r\nHost: HOST\r\n" + c.headers + "\r\n" + body +
				"GET /end HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n")
			asked, arrived := end()
			if slices.ContainsFunc(arrived, func(a string) bool { return a != "GET /end" }) {
				t.Errorf("%s, %s: %q arrived", c.name, w.name, arrived)
			}
			var want []string
			if c.asked != "" {
				want = []string{c.asked}
			}
			if !slices.Equal(asked, want) {
				t.Errorf("%s, %s: asked %q, want %q", c.name, w.name, asked, want)
			}
			if len(codes) == 0 || codes[0] < 400 {
				t.Errorf("%s, %s: answered %v", c.name, w.name, codes)
			}
		}
	}
}

// TestEmptyBodies: a look whose end comes by itself has no body, and is served;
// what comes after the end does not arrive.
func TestEmptyBodies(t *testing.T) {
	for _, http1 := range []bool{true, false} {
		r, q := judged(t, bridgetest.Options{HTTP1: http1}, false)
		const look = "GET /c/prod/api/v1/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
		if codes := r.raw(look + "\r\n"); !slices.Equal(codes, []int{http.StatusTeapot}) {
			t.Errorf("answered %v, asked %q", codes, q.all())
		}
		if codes := r.raw(look + "Impersonate-User: root\r\n\r\n"); !slices.Equal(codes, []int{http.StatusForbidden}) {
			t.Errorf("a trailer that was not announced: answered %v, asked %q", codes, q.all())
		}
		for data, want := range map[string]string{"": "418", "{}": "403"} {
			if got := r.h2body(data, ":method", "GET", ":scheme", "https", ":authority", "HOST", ":path",
				"/c/prod/api/v1/pods"); got != want {
				t.Errorf("with %q over HTTP/2: %s, want %s", data, got, want)
			}
		}
		if got := r.api.Arrivals(); !slices.Equal(got, []string{"GET /api/v1/pods", "GET /api/v1/pods"}) {
			t.Errorf("%q arrived", got)
		}
	}
}

// TestBodiesReachWorkloads: a workload may take a GET with a body; what was looked
// at arrives whole.
func TestBodiesReachWorkloads(t *testing.T) {
	r, q := judged(t, bridgetest.Options{}, true)
	req, err := http.NewRequest(http.MethodGet, r.ep.URL("prod")+"/api/v1/namespaces/web/services/s/proxy/_search",
		io.MultiReader(strings.NewReader(`{"query":{}}`)))
	check(t, err)
	resp, err := r.client(r.issue("prod", Client{PID: 1, Start: 1})).Do(req)
	check(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	if !strings.Contains(string(b), `"Body":"{\"query\":{}}"`) || len(q.all()) != 1 {
		t.Errorf("%s %s, asked %q", resp.Status, b, q.all())
	}
}

// TestCiphers: TLS 1.2 has no suite in CBC mode here.
func TestCiphers(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, suite := range tls.CipherSuites() {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) || !strings.Contains(suite.Name, "_ECDHE_ECDSA_") {
			continue
		}
		cfg := r.tls(nil)
		cfg.MaxVersion, cfg.CipherSuites = tls.VersionTLS12, []uint16{suite.ID}
		conn, err := tls.Dial("tcp", r.ep.Address(), cfg)
		if err == nil {
			check(t, conn.Close())
		}
		if cbc := strings.Contains(suite.Name, "_CBC_"); cbc != (err != nil) {
			t.Errorf("%s: %v", suite.Name, err)
		}
	}
}

// TestConsentSeesTheRequest: what a person agrees to is what arrives, with and
// without the enrollment's name in the path; rules look at the same.
func TestConsentSeesTheRequest(t *testing.T) {
	q := &questions{yes: true}
	r := newRig(t, rigOptions{ask: q.ask, policy: consent.Policy{Mode: consent.Rules,
		Rules: []consent.Rule{{Verbs: []string{"delete"}, Resources: []string{"deployments.apps"},
			Namespaces: []string{"web"}}}}})
	c := r.client(r.issue("prod", Client{PID: 1, Start: 1}))
	for _, base := range []string{r.ep.URL("prod"), "https://" + r.ep.Address()} {
		for _, path := range []string{"/apis/apps/v1/namespaces/web/deployments/x",
			"/apis/apps/v1/namespaces/dev/deployments/x"} {
			req, err := http.NewRequest(http.MethodDelete, base+path, nil)
			check(t, err)
			resp, err := c.Do(req)
			check(t, err)
			check(t, resp.Body.Close())
			if resp.StatusCode != http.StatusTeapot {
				t.Errorf("%s: %s", req.URL, resp.Status)
			}
		}
	}
	if got := q.all(); !slices.Equal(got, []string{`delete deployments.apps "x" in "web"`,
		`delete deployments.apps "x" in "web"`}) {
		t.Errorf("asked %q", got)
	}
}

// TestBodyWaitsForConsent: a client that expects to be told is not told to send
// its body before somebody has agreed.
func TestBodyWaitsForConsent(t *testing.T) {
	asked, yes := make(chan struct{}), make(chan struct{})
	r := newRig(t, rigOptions{policy: consent.Policy{Mode: consent.Writes},
		ask: func(ctx context.Context, _ Question) error {
			close(asked)
			select {
			case <-yes:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
	conn, err := tls.Dial("tcp", r.ep.Address(), r.tls(r.issue("prod", Client{PID: 1, Start: 1}), "http/1.1"))
	check(t, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	fmt.Fprintf(conn,
		"POST /c/prod/api/v1/namespaces/web/pods HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
		r.ep.Address())
	<-asked
	first := make(chan string, 1)
	br := bufio.NewReader(conn)
	go func() {
		line, err := br.ReadString('\n')
		first <- fmt.Sprint(strings.TrimSpace(line), err)
	}()
	select {
	case line := <-first:
		t.Fatalf("told before anybody agreed: %s", line)
	default:
	}
	close(yes)
	if line := <-first; line != "HTTP/1.1 100 Continue<nil>" {
		t.Fatal(line)
	}
	_, err = br.ReadString('\n')
	check(t, err)
	_, err = io.WriteString(conn, "body")
	check(t, err)
	resp, err := http.ReadResponse(br, nil)
	check(t, err)
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	if resp.StatusCode != http.StatusTeapot || !strings.Contains(string(b), `"Body":"body"`) {
		t.Errorf("%s %s", resp.Status, b)
	}
}

// h2 sends one request by its header fields over HTTP/2 and returns the status,
// or "reset" or "closed".
func (r *rig) h2(fields ...string) string {
	r.t.Helper()
	return r.h2send(nil, fields...)
}

// h2body is h2 for a request whose end comes in a frame of its own, with data.
func (r *rig) h2body(data string, fields ...string) string {
	r.t.Helper()
	return r.h2send([]byte(data), fields...)
}

func (r *rig) h2send(data []byte, fields ...string) string {
	r.t.Helper()
	conn, err := tls.Dial("tcp", r.ep.Address(), r.tls(r.issue("prod", Client{PID: 1, Start: 1}), "h2"))
	check(r.t, err)
	defer conn.Close()
	check(r.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, http2.ClientPreface)
	check(r.t, err)
	fr := http2.NewFramer(conn, conn)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	check(r.t, fr.WriteSettings())
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		check(r.t, enc.WriteField(hpack.HeaderField{Name: fields[i],
			Value: strings.ReplaceAll(fields[i+1], "HOST", r.ep.Address())}))
	}
	check(r.t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true,
		EndStream: data == nil}))
	if data != nil {
		check(r.t, fr.WriteData(1, true, data))
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				check(r.t, fr.WriteSettingsAck())
			}
		case *http2.RSTStreamFrame:
			return "reset"
		case *http2.GoAwayFrame:
			return "closed"
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		}
	}
}

// TestHTTP2Tricks: what HTTP/2 can say that HTTP/1.1 cannot leads nowhere.
func TestHTTP2Tricks(t *testing.T) {
	ways := judgedWays(t)
	const path = "/c/prod/api/v1/pods"
	get := func(path string, more ...string) []string {
		return append([]string{":method", "GET", ":scheme", "https", ":authority", "HOST", ":path", path}, more...)
	}
	for _, c := range []struct {
		name   string
		fields []string
		want   []string // statuses
	}{
		{"fine", get(path), []string{"418"}},
		{"upgrade", get(path, "connection", "Upgrade", "upgrade", "websocket"), []string{"400", "403", "reset"}},
		{"upgrade alone", get(path, "upgrade", "websocket"), []string{"400", "403", "reset"}},
		{"transfer-encoding", get(path, "transfer-encoding", "chunked"), []string{"400", "reset"}},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "HOST"}, []string{"405"}},
		{"extended CONNECT", []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "HOST", ":path", path}, []string{"400", "405", "reset", "closed"}},
		{"another host beside the authority", get(path, "host", "evil.example"), []string{"418", "400", "reset"}},
		{"another authority", []string{":method", "GET", ":scheme", "https", ":authority", "evil.example", ":path", path, "host", "HOST"}, []string{"403"}},
		{"two authorities", get(path, ":authority", "HOST"), []string{"reset", "closed", "400"}},
		{"two paths", []string{":method", "GET", ":scheme", "https", ":authority", "HOST", ":path", path, ":path", "/c/prod/api/v1/secrets"}, []string{"reset", "closed", "400"}},
		{"two methods", []string{":method", "GET", ":method", "DELETE", ":scheme", "https", ":authority", "HOST", ":path", path}, []string{"reset", "closed", "400"}},
		{"a request line in the path", get("/c/prod/api/v1/pods?a HTTP/1.1&dryRun=All"), []string{"403", "400", "reset"}},
		{"line ends in the path", get("/c/prod/api/v1/pods HTTP/1.1\r\nHost: x\r\n\r\nDELETE /api/v1/pods"), []string{"403", "400", "reset"}},
		{"line ends in a header", get(path, "x-a", "b\r\nDELETE: /"), []string{"reset", "closed", "400"}},
		{"line ends in the method", []string{":method", "GET /x HTTP/1.1\r\n\r\nDELETE", ":scheme", "https", ":authority", "HOST", ":path", path}, []string{"reset", "closed", "400", "403"}},
		{"a whole URL as path", get("https://HOST/c/prod/api/v1/pods"), []string{"404", "400", "reset"}},
		{"an asterisk", get("*"), []string{"404", "400", "reset"}},
	} {
		for _, w := range ways {
			end := w.q.since(w.rig)
			got := w.h2(c.fields...)
			asked, arrived := end()
			if !slices.Contains(c.want, got) {
				t.Errorf("%s, %s: answered %s, want one of %v; asked %q", c.name, w.name, got, c.want, asked)
			}
			if slices.ContainsFunc(arrived, func(a string) bool { return a != "GET /api/v1/pods" || got != "418" }) {
				t.Errorf("%s, %s: %q arrived", c.name, w.name, arrived)
			}
		}
	}
}

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/upstream"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

// other is an upstream with the rig's key and another cluster.
func (r *rig) other(change func(*upstream.Options)) *upstream.Upstream {
	r.t.Helper()
	o := r.options
	change(&o)
	up, err := upstream.New(o)
	check(r.t, err)
	r.t.Cleanup(up.Close)
	return up
}

// TestServerName: the certificate is checked for tls-server-name, where one is
// enrolled, and for the host otherwise.
func TestServerName(t *testing.T) {
	r := newRig(t, rigOptions{})
	for name, good := range map[string]bool{"": false, "api.test": true, "other.test": false} {
		up := r.other(func(o *upstream.Options) {
			o.Enrollment.Cluster.Server = strings.Replace(r.api.URL, "127.0.0.1", "localhost", 1) // not in its certificate
			o.Enrollment.Cluster.TLSServerName = name
		})
		if err := up.Check(context.Background()); (err == nil) != good || !good && !strings.Contains(err.Error(), "not trusted") {
			t.Errorf("%q: %v", name, err)
		}
		if n := up.Status().Signatures; !good && n != 0 {
			t.Errorf("%q: %d signatures for a server we do not trust", name, n)
		}
	}
}

// TestIPv6 reaches a server by an IPv6 address, for requests and tunnels.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		need.Missing(t, "this machine has no IPv6 loopback: "+err.Error())
	}
	check(t, l.Close())
	r := newRig(t, rigOptions{api: bridgetest.Options{Address: "[::1]:0"}})
	if !strings.HasPrefix(r.api.URL, "https://[::1]:") {
		t.Fatal(r.api.URL)
	}
	if code, body := r.get(r.client(r.issue("prod", Client{})), "/version"); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	_, br := upgrade(t, r)
	if got, err := br.ReadString('\n'); got != "hello\n" || err != nil {
		t.Fatalf("%q %v", got, err)
	}
}

// TestIntermediates are presented in the handshake.
func TestIntermediates(t *testing.T) {
	for _, strict := range []bool{false, true} {
		r := newRig(t, rigOptions{api: bridgetest.Options{Strict: strict}})
		chain := r.api.Chain(t, r.options.Chain[0].PublicKey, "alice")
		check(t, r.other(func(o *upstream.Options) { o.Chain = chain }).Check(context.Background()))
		if err := r.other(func(o *upstream.Options) { o.Chain = chain[:1] }).Check(context.Background()); !errors.Is(err, upstream.ErrUnauthorized) {
			t.Errorf("without the intermediate: %v", err)
		}
	}
}

// TestServersBehindOneName do not share TLS tickets, so that each new connection
// may cost a signature: the pooled one costs none.
func TestServersBehindOneName(t *testing.T) {
	r := newRig(t, rigOptions{})
	backends := []string{strings.TrimPrefix(r.api.URL, "https://")}
	for range 2 {
		backends = append(backends, strings.TrimPrefix(bridgetest.New(t, bridgetest.Options{Like: r.api}).URL, "https://"))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	var dials atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", backends[int(dials.Add(1)-1)%len(backends)])
			if err != nil {
				_ = c.Close()
				continue
			}
			go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
			go func() { _, _ = io.Copy(c, up); _ = c.Close() }()
		}
	}()
	up := r.other(func(o *upstream.Options) { o.Enrollment.Cluster.Server = "https://" + l.Addr().String() })
	for range 100 {
		check(t, up.Check(context.Background()))
	}
	if st := up.Status(); st.Signatures != 1 || st.Dials != 1 {
		t.Fatalf("100 requests: %+v", st)
	}
	for range 5 { // each connection reaches another server
		up.Reset()
		check(t, up.Check(context.Background()))
	}
	if st := up.Status(); st.Dials != 6 || st.Signatures > 6 {
		t.Fatalf("%+v", st)
	}
}

// TestCompressionIsLeftAlone: a body passes as it is, with its encoding named,
// and none is asked for that the client did not.
func TestCompressionIsLeftAlone(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: http1}})
		c := r.client(r.issue("prod", Client{}))
		resp, err := c.Get(r.ep.URL("prod") + "/gzip")
		check(t, err)
		b, err := io.ReadAll(resp.Body)
		check(t, errors.Join(err, resp.Body.Close()))
		if resp.Header.Get("Content-Encoding") != "gzip" || !bytes.Equal(b, bridgetest.Gzipped) {
			t.Errorf("%v %q", resp.Header, b)
		}
		if _, body := r.get(c, "/anything"); strings.Contains(body, "Accept-Encoding") {
			t.Errorf("an encoding is asked for: %s", body)
		}
	}
}

// TestUploadIsStreamed: the API server reads what has been sent while the client
// goes on sending.
func TestUploadIsStreamed(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		r := newRig(t, rigOptions{api: bridgetest.Options{HTTP1: http1}})
		pr, pw := io.Pipe()
		done := make(chan string, 1)
		go func() {
			resp, err := r.client(r.issue("prod", Client{})).Post(r.ep.URL("prod")+"/upload", "application/json", pr)
			if err != nil {
				done <- err.Error()
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			done <- fmt.Sprint(string(b), err)
		}()
		for i := range 4 {
			_, err := pw.Write([]byte("part"))
			check(t, err)
			poll.Until(t, "the part arrives", func() bool { return r.api.Uploaded.Load() == int64(4*(i+1)) })
		}
		check(t, pw.Close())
		if got := <-done; got != "16 <nil><nil>" {
			t.Error(got)
		}
	}
}

// TestAuthority: another one that is enrolled is used for new connections; what
// it has not signed is not connected to.
func TestAuthority(t *testing.T) {
	r := newRig(t, rigOptions{})
	moved := bridgetest.New(t, bridgetest.Options{})
	both := append(bytes.Clone(moved.CAPEM), r.api.CAPEM...)
	for _, tc := range []struct {
		ca   []byte
		good bool
	}{{both, true}, {r.api.CAPEM, true}, {moved.CAPEM, false}} {
		up := r.other(func(o *upstream.Options) {
			o.Enrollment.Cluster = cluster.Cluster{Server: r.api.URL, CAData: tc.ca}
		})
		if err := up.Check(context.Background()); (err == nil) != tc.good {
			t.Error(err)
		}
	}
	if _, err := http.Get(r.api.URL); err == nil { // the system's authorities are no way in
		t.Error("the stand-in is trusted by everybody")
	}
	up := r.other(func(o *upstream.Options) { o.Enrollment.Cluster.CAData = nil })
	if err := up.Check(context.Background()); err == nil {
		t.Error("without an authority the system's would have to know it")
	}
	up = r.other(func(o *upstream.Options) {
		o.Enrollment.Cluster.CAData, o.Enrollment.Cluster.InsecureSkipTLSVerify = nil, true
	})
	if err := up.Check(context.Background()); err != nil {
		t.Errorf("enrolled without verification: %v", err)
	}
}

package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

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

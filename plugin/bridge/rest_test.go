package bridge

import (
	"bufio"
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

	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/consent/body"
	"github.com/kubehsm/kubehsm/test/poll"
)

// speaking returns a client's transport that speaks one protocol only.
func (r *rig) speaking(protocol string) http.RoundTripper {
	r.t.Helper()
	config := r.tls(r.issue("prod", Client{PID: 1, Start: 1}), protocol)
	if protocol == "h2" {
		tr := &http2.Transport{TLSClientConfig: config}
		r.t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	tr := &http.Transport{TLSClientConfig: config}
	r.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// TestStalledClient: a client that has sent half a body is told at once of a lock, of the end of the connection to the
// API server, and of what that answers before it has the body.
func TestStalledClient(t *testing.T) {
	for name, c := range map[string]struct {
		path    string
		happens func(r *rig) // when half the body has arrived
		code    int
		words   string
	}{
		"lock":  {"/upload", func(r *rig) { r.up.Close() }, http.StatusUnauthorized, "closed by the agent"},
		"cut":   {"/upload", func(r *rig) { r.api.CloseClientConnections() }, http.StatusServiceUnavailable, "cannot reach"},
		"early": {"/bytes?n=9", nil, http.StatusOK, "xxxxxxxxx"},
	} {
		for _, protocol := range []string{"http/1.1", "h2"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				r := newRig(t, rigOptions{})
				if c.happens != nil {
					go func() {
						if !poll.Within(poll.Patience, func() bool { return r.api.Uploaded.Load() == 4 }) {
							t.Error("half the body has not arrived")
						}
						c.happens(r)
					}()
				}
				if protocol == "http/1.1" {
					got := r.raw("POST /c/prod" + c.path + " HTTP/1.1\r\nHost: HOST\r\nContent-Length: 8\r\n\r\nhalf")
					if !slices.Equal(got, []int{c.code}) && !(name == "cut" && len(got) == 0) { // the end of the connection says it, too
						t.Errorf("%v", got)
					}
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), poll.Patience)
				defer cancel()
				pr, pw := io.Pipe()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.ep.URL("prod")+c.path,
					io.MultiReader(strings.NewReader("half"), pr))
				check(t, err)
				req.ContentLength = 8
				resp, err := r.speaking(protocol).RoundTrip(req)
				check(t, err)
				answer, err := io.ReadAll(resp.Body)
				check(t, errors.Join(err, pw.Close(), resp.Body.Close()))
				if resp.StatusCode != c.code || !strings.Contains(string(answer), c.words) {
					t.Errorf("%s %s", resp.Status, answer)
				}
			})
		}
	}
}

// TestRestOfABody: what is left of a body when the API server has answered is not taken for further requests, also if
// the body was put in another's place for a question.
func TestRestOfABody(t *testing.T) {
	const all = 8 << 20
	for _, c := range []struct {
		name string
		mode consent.Mode
		size int
	}{
		{"passed on unread", consent.Session, all},
		{"asked about", consent.Writes, all},
		{"small", consent.Session, body.Limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rigOptions{policy: consent.Policy{Mode: c.mode},
				ask: func(context.Context, Question) error { return nil }})
			for range 3 {
				conn, err := tls.Dial("tcp", r.ep.Address(), r.tls(r.issue("prod", Client{PID: 1, Start: 1}), "http/1.1"))
				check(t, err)
				check(t, conn.SetDeadline(time.Now().Add(time.Minute)))
				var wg sync.WaitGroup
				wg.Go(func() { // until the bridge takes no more
					_, _ = fmt.Fprintf(conn, "POST /c/prod/bytes?n=9 HTTP/1.1\r\nHost: %[1]s\r\nContent-Length: %[2]d\r\n\r\n%[3]s"+
						"GET /c/prod/version HTTP/1.1\r\nHost: %[1]s\r\nConnection: close\r\n\r\n",
						r.ep.Address(), c.size, strings.Repeat("x", c.size))
				})
				answers := bufio.NewReader(conn)
				for n := 0; ; n++ {
					resp, err := http.ReadResponse(answers, nil)
					if err != nil {
						break
					}
					if n > 0 && resp.StatusCode != http.StatusOK { // of the next request, where all of the body was read
						t.Errorf("the rest of the body was answered %s", resp.Status)
					}
					_, err = io.Copy(io.Discard, resp.Body)
					if errors.Join(err, resp.Body.Close()) != nil || resp.Close {
						break
					}
				}
				check(t, conn.Close())
				wg.Wait()
			}
		})
	}
}

package bridge

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/consent/body"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestBodyIsSentAgain: an API server that ends an HTTP/2 connection before it takes a request gets
// the request on the next connection, as from a client that is connected directly. This costs no
// memory afterwards. A body of unknown length or of more than API servers take is sent once, unless
// it was held for a question.
func TestBodyIsSentAgain(t *testing.T) {
	for _, c := range []struct {
		size  int
		known bool
		mode  consent.Mode
		tell  bool
		want  int
	}{
		{body.Limit, true, consent.Session, false, http.StatusTeapot},
		{body.Limit + 1, true, consent.Session, false, http.StatusServiceUnavailable},
		{2, false, consent.Session, false, http.StatusServiceUnavailable},
		{2, false, consent.Writes, true, http.StatusTeapot},
		{2, true, consent.Writes, false, http.StatusTeapot},
		{body.Limit + 9, false, consent.Writes, true, http.StatusServiceUnavailable},
	} {
		for _, protocol := range []string{"http/1.1", "h2"} {
			t.Run(fmt.Sprintf("%d bytes, known %t, %s, told %t, %s", c.size, c.known, c.mode, c.tell, protocol),
				func(t *testing.T) {
					r := newRig(t, rigOptions{api: bridgetest.Options{GoAway: true}, policy: consent.Policy{Mode: c.mode},
						ask: func(ctx context.Context, q Question) error {
							if !c.tell {
								return nil
							}
							_, err := q.Body(ctx)
							return err
						}})
					text := strings.Repeat("0123456789", c.size/10+1)[:c.size]
					var from io.Reader = strings.NewReader(text)
					if !c.known {
						from = io.MultiReader(from)
					}
					client := &http.Client{Transport: r.speaking(protocol)}
					resp, err := client.Post(r.ep.URL("prod")+"/echo", "application/json", from)
					check(t, err)
					answer, err := io.ReadAll(resp.Body)
					check(t, errors.Join(err, resp.Body.Close()))
					if resp.StatusCode != c.want {
						t.Fatalf("%s %s", resp.Status, answer)
					}
					var arrived bridgetest.Arrived
					if c.want == http.StatusTeapot {
						check(t, json.Unmarshal(answer, &arrived))
						if arrived.Body != text {
							t.Errorf("%d bytes arrived", len(arrived.Body))
						}
					}
					if st := r.up.Status(); st.Signatures != 1 {
						t.Errorf("%+v", st)
					}
				})
		}
	}
}

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

// TestNoRoomToSendAgain: a body that finds no room is not kept. It is sent at once.
func TestNoRoomToSendAgain(t *testing.T) {
	all := newBodies()
	of := func(pid int) asker { return asker{client: Client{PID: pid, Start: 1}} }
	sent := func(pid int, text string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
		all.keep(exchange{httptest.NewRecorder(), r, of(pid)}, r)
		return r
	}
	check(t, all.room.take(t.Context(), of(1), maxHeld/2))
	mine, other := sent(1, "mine"), sent(2, "other")
	if mine.GetBody != nil || other.GetBody == nil || all.room.free != maxHeld/2-5 {
		t.Errorf("%t, %t, %d bytes are free", mine.GetBody != nil, other.GetBody != nil, all.room.free)
	}
	for range 2 {
		got, err := io.ReadAll(other.Body)
		if err != nil || string(got) != "other" {
			t.Errorf("%q, %v", got, err)
		}
		check(t, other.Body.Close())
		kept := other.Body
		other.Body, err = other.GetBody()
		check(t, err)
		if _, err := kept.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Error(err)
		}
	}
	kept := other.Body.(*sending).kept
	for _, r := range []*http.Request{mine, other} {
		letGo(r)
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Error(err)
		}
	}
	if !bytes.Equal(kept, make([]byte, 5)) || all.room.free != maxHeld/2 || len(all.room.held) != 1 {
		t.Errorf("%q is left, %d bytes are free", kept, all.room.free)
	}
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
					if !slices.Equal(got, []int{c.code}) {
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
// the body was put in another's place for a question or to be sent again.
func TestRestOfABody(t *testing.T) {
	const all = 8 << 20
	for _, c := range []struct {
		name string
		mode consent.Mode
		room int64 // the room that others leave
		size int
	}{
		{"passed on unread", consent.Session, maxHeld, all},
		{"asked about", consent.Writes, maxHeld, all},
		{"no room", consent.Session, 0, body.Limit},
		{"kept", consent.Session, maxHeld, body.Limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rigOptions{policy: consent.Policy{Mode: c.mode},
				ask: func(context.Context, Question) error { return nil }})
			r.server.bodies.room.free = c.room
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

package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/consent/body"
	"github.com/kubehsm/kubehsm/test/poll"
)

// told is a person who says yes when he has been told of the body.
func told(t *testing.T, o bridgetest.Options) (*rig, func() Body) {
	t.Helper()
	var last atomic.Pointer[Body]
	r := newRig(t, rigOptions{api: o, policy: consent.Policy{Mode: consent.Writes},
		ask: func(ctx context.Context, q Question) error {
			if q.Body == nil {
				return nil
			}
			b, err := q.Body(ctx)
			last.Store(&b)
			return err
		}})
	return r, func() Body { return *last.Load() }
}

// TestBodyIsSentAsItWasTold: what arrives is what was judged, to the byte, with a length if
// it came with one, over either protocol on either side; what is larger than the API
// server's limit is not read before.
func TestBodyIsSentAsItWasTold(t *testing.T) {
	random := make([]byte, body.Limit+1)
	for i := range random {
		random[i] = byte('a' + rand.IntN(26))
	}
	for _, api1 := range []bool{true, false} {
		r, last := told(t, bridgetest.Options{HTTP1: api1})
		for _, protocol := range []string{"h2", "http/1.1"} {
			c := &http.Client{Transport: r.speaking(protocol)}
			sizes := []int{1, 70_000}
			if api1 == (protocol == "http/1.1") {
				sizes = append(sizes, body.Limit, body.Limit+1)
			}
			for _, n := range sizes {
				for _, known := range []bool{true, false} {
					at := fmt.Sprintf("api1 %t, client %s, %d bytes, known %t", api1, protocol, n, known)
					var from io.Reader = bytes.NewReader(random[:n])
					if !known {
						from = io.MultiReader(from)
					}
					resp, err := c.Post(r.ep.URL("prod")+"/api/v1/namespaces/web/pods", "", from)
					check(t, err)
					var arrived bridgetest.Arrived
					check(t, json.NewDecoder(resp.Body).Decode(&arrived))
					check(t, resp.Body.Close())
					length := arrived.Header.Get("Content-Length")
					if arrived.Body != string(random[:n]) || (length != "") != known || known && length != fmt.Sprint(n) {
						t.Errorf("%s: %d bytes arrived, length %q", at, len(arrived.Body), length)
					}
					sum := sha256.Sum256(random[:n])
					want := consent.Body{Length: int64(n), SHA256: hex.EncodeToString(sum[:])}
					switch {
					case n > body.Limit && known:
						want.SHA256 = ""
					case n > body.Limit:
						want = consent.Body{Length: -1}
					}
					if got := last(); got.Body != want || len(got.Account) != 1 {
						t.Errorf("%s: told %+v, want %+v", at, got, want)
					}
				}
			}
		}
	}
}

// TestBodyThatLies: a body that does not arrive as it was announced is not sent on, and
// neither is a trailer.
func TestBodyThatLies(t *testing.T) {
	for _, api1 := range []bool{true, false} {
		r, _ := told(t, bridgetest.Options{HTTP1: api1})
		const post = "POST /c/prod/api/v1/namespaces/web/pods HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n"
		for text, want := range map[string][]int{
			"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nImpersonate-User: root\r\n\r\n": {403},
			"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n":                              {400},
			"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n":                           {418},
			"Content-Length: 2\r\n\r\n{}DELETE /c/prod/x HTTP/1.1\r\n":                         {418},
			"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}":                              {100, 418},
		} {
			if got := r.raw(post + text); !slices.Equal(got, want) {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
		fields := []string{":method", "POST", ":scheme", "https", ":authority", "HOST",
			":path", "/c/prod/api/v1/namespaces/web/pods"}
		for length, want := range map[string]string{"1": "400 reset", "3": "400 reset", "2": "418"} {
			if got := r.h2body("{}", append(fields, "content-length", length)...); !strings.Contains(want, got) {
				t.Errorf("HTTP/2 with a length of %s: %s", length, got)
			}
		}
		if got := r.api.Arrivals(); len(got) != 4 {
			t.Errorf("%q arrived", got)
		}
	}
}

// TestBodyThatNeverEnds: who waits for a body gives up, and so does the bridge.
func TestBodyThatNeverEnds(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		r := newRig(t, rigOptions{policy: consent.Policy{Mode: consent.Writes},
			ask: func(ctx context.Context, q Question) error {
				ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				_, err := q.Body(ctx)
				return err
			}})
		transport := &http.Transport{TLSClientConfig: r.tls(r.issue("prod", Client{PID: 1, Start: 1}), protocol),
			ForceAttemptHTTP2: protocol == "h2"}
		t.Cleanup(transport.CloseIdleConnections)
		pr, pw := io.Pipe()
		go func() { // a byte now and then, until nobody takes one
			for {
				if _, err := pw.Write([]byte(" ")); err != nil {
					return
				}
			}
		}()
		req, err := http.NewRequest(http.MethodPost, r.ep.URL("prod")+"/api/v1/namespaces/web/pods", slow{pr, t.Context()})
		check(t, err)
		resp, err := transport.RoundTrip(req)
		if err == nil {
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %s", protocol, resp.Status)
			}
			check(t, resp.Body.Close())
		}
		check(t, pr.CloseWithError(io.ErrClosedPipe))
		if got := r.api.Arrivals(); len(got) != 0 {
			t.Errorf("%s: %q arrived", protocol, got)
		}
	}
}

// slow gives one byte every few milliseconds.
type slow struct {
	from io.Reader
	ctx  context.Context
}

func (s slow) Read(p []byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(5 * time.Millisecond):
	}
	return s.from.Read(p[:1])
}

// TestHeldBodiesAreBounded: however many bodies wait for an answer, what is held of them has
// its bound, and one client no more of it than what it leaves to others. What nobody waits for
// any more is overwritten.
func TestHeldBodiesAreBounded(t *testing.T) { synctest.Test(t, heldBodiesAreBounded) }

func heldBodiesAreBounded(t *testing.T) {
	all := newBodies()
	what := consent.Parse("POST", "/api/v1/namespaces/web/pods", nil, true)
	hold := func(who asker, size int) (*heldBody, error) {
		// Time enough for one body, and no more.
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		req := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(strings.Repeat("x", size))))
		req.ContentLength = int64(size)
		b := all.hold(exchange{httptest.NewRecorder(), req, who}, req)
		_, err := b.tell(ctx, what)
		if err != nil && !strings.Contains(err.Error(), "too many bodies") {
			t.Fatal(err)
		}
		return b, err
	}
	var held []*heldBody
	fill := func(name string, who func(i int) asker, most int) {
		t.Helper()
		for n := 0; ; n++ {
			b, err := hold(who(n), body.Limit)
			if err == nil {
				held = append(held, b)
				continue
			}
			if n != most {
				t.Errorf("of %s %d bodies of 3 MiB are held, want %d", name, n, most)
			}
			break
		}
	}
	greedy := asker{client: Client{PID: 1, Start: 1}}
	fill("one client", func(int) asker { return greedy }, maxHeld/2/body.Limit)
	fill("many clients", func(i int) asker { return asker{client: Client{PID: i + 2, Start: 1}} }, 10)

	// More of them wait, and yet another client is served.
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- all.room.take(ctx, greedy, body.Limit) }()
	small, err := hold(asker{client: greedy.client, conn: 1}, 100<<10)
	check(t, err)
	held = append(held, small)
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	for _, b := range held {
		kept := b.kept
		letGo(b.own)
		if len(kept) == 0 || slices.Max(kept) != 0 {
			t.Error("what was held is not overwritten")
		}
		if _, err := b.own.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Error(err)
		}
	}
	if all.room.free != maxHeld || len(all.room.held) != 0 {
		t.Errorf("not all room is let go: %d, %v", all.room.free, all.room.held)
	}
	check(t, all.room.take(t.Context(), greedy, body.Limit))
}

// TestManyClientsTakeAllRoom: each process counts as a client, so many of them take nearly all
// room together. The next body then waits until one of theirs goes; what has no body, and what
// needs no yes, is not kept waiting.
func TestManyClientsTakeAllRoom(t *testing.T) {
	r, _ := told(t, bridgetest.Options{})
	room := r.server.bodies.room
	of := func(n int) asker { return asker{client: Client{PID: n + 10, Start: 1}} }
	const small = 4 << 10
	var held []int64 // by the number of its process
	for n := int64(body.Limit); n >= small; {
		if _, ok := room.try(of(len(held)), n); !ok {
			n /= 2
			continue
		}
		held = append(held, n)
	}
	if len(held) < 25 || len(held) > 35 || room.free < 0 || room.free > 4*small {
		t.Errorf("%d processes have left %d bytes", len(held), room.free)
	}
	c := r.client(r.issue("prod", Client{PID: 1, Start: 1}))
	ask := func(method string, sent io.Reader) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, r.ep.URL("prod")+"/api/v1/namespaces/web/pods/p", sent)
		check(t, err)
		resp, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	passed, err := ask(http.MethodGet, nil)
	check(t, err)
	if code, err := ask(http.MethodDelete, nil); err != nil || code != passed {
		t.Errorf("without a body: %d, %v", code, err)
	}
	answered := make(chan int, 1)
	go func() {
		code, err := ask(http.MethodPut, strings.NewReader(strings.Repeat("x", 1<<20)))
		if err != nil {
			t.Error(err)
		}
		answered <- code
	}()
	select {
	case code := <-answered:
		t.Errorf("with a body: %d", code)
	case <-time.After(100 * time.Millisecond): // the request waits
	}
	room.leave(of(0), held[0])
	if code := <-answered; code != passed {
		t.Errorf("with a body, when one has gone: %d", code)
	}
}

// TestBodiesThatWaitTakeLittle: bodies that wait for a yes leave others of the same HTTP/2
// connection room to arrive.
func TestBodiesThatWaitTakeLittle(t *testing.T) {
	var waiting atomic.Int64
	r := newRig(t, rigOptions{policy: consent.Policy{Mode: consent.Writes},
		ask: func(ctx context.Context, q Question) error {
			if q.Request.Name != "wait" {
				return nil
			}
			waiting.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}})
	tr, large := r.speaking("h2"), strings.Repeat("x", 5<<20)
	post := func(ctx context.Context, name string, size int) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, r.ep.URL("prod")+"/api/v1/namespaces/web/pods/"+name,
			strings.NewReader(large[:size]))
		check(t, err)
		return tr.RoundTrip(req)
	}
	const bodies = 60
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range bodies {
		wg.Go(func() {
			if resp, err := post(ctx, "wait", 5<<20); err == nil {
				t.Errorf("%s without a yes", resp.Status)
				_ = resp.Body.Close()
			}
		})
	}
	poll.Until(t, "all wait", func() bool { return waiting.Load() == bodies })
	within, stop := context.WithTimeout(t.Context(), poll.Patience)
	defer stop()
	resp, err := post(within, "pass", 1<<20)
	check(t, err)
	check(t, resp.Body.Close())
	cancel()
	wg.Wait()
}

// TestManyBodiesAtOnce: 100 requests with bodies are all told of and sent on.
func TestManyBodiesAtOnce(t *testing.T) {
	r, _ := told(t, bridgetest.Options{})
	c := r.client(r.issue("prod", Client{PID: 1, Start: 1}))
	text := strings.Repeat(`{"a":1} `, 2_000)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			resp, err := c.Post(r.ep.URL("prod")+"/api/v1/namespaces/web/pods", "application/json", strings.NewReader(text))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			var arrived bridgetest.Arrived
			if err := json.NewDecoder(resp.Body).Decode(&arrived); err != nil || arrived.Body != text {
				t.Errorf("%v, %d bytes", err, len(arrived.Body))
			}
		})
	}
	wg.Wait()
}

// TestClientLeavesItsBody: a client that goes while its body is read harms nobody else.
func TestClientLeavesItsBody(t *testing.T) {
	reading := make(chan struct{})
	r := newRig(t, rigOptions{policy: consent.Policy{Mode: consent.Writes},
		ask: func(ctx context.Context, q Question) error {
			reading <- struct{}{}
			_, err := q.Body(ctx)
			return err
		}})
	c := r.client(r.issue("prod", Client{PID: 1, Start: 1}))
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		pr, pw := io.Pipe()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.ep.URL("prod")+"/api/v1/namespaces/web/pods", pr)
		check(t, err)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if resp, err := c.Do(req); err == nil {
				if resp.StatusCode != http.StatusBadRequest {
					t.Errorf("answered %s", resp.Status)
				}
				_ = resp.Body.Close()
			}
		}()
		<-reading
		cancel()
		check(t, pw.CloseWithError(ctx.Err())) // Over HTTP/1.1 the client waits for the body to end.
		<-gone
	}
	if code, body := r.get(c, "/version"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}

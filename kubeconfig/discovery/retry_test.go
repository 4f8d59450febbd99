package discovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestBusyServerIsAskedAgain(t *testing.T) {
	for _, code := range []int{429, 500, 503} {
		f := newCluster(t)
		f.answer = func(w http.ResponseWriter, _ *http.Request, n int) bool {
			if n > 2 && n != 4 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			return status(w, code)
		}
		if _, err := discover(t.Context(), f.options(t), fastPace()); err != nil {
			t.Errorf("%d: %v", code, err)
		}
		if n := f.count(); n != 5 {
			t.Errorf("%d: %d requests", code, n)
		}
	}
}

// TestRetryAfterIsRespected: who is told to come back in an hour, and has less
// time, does not ask again.
func TestRetryAfterIsRespected(t *testing.T) {
	f := newCluster(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.Header().Set("Retry-After", "3600")
		return status(w, 429)
	}
	_, err := discover(t.Context(), f.options(t), fastPace())
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "429") {
		t.Errorf("%v", err)
	}
	if n := f.count(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestTimeouts(t *testing.T) {
	hang := func(f *fakeCluster) {
		f.answer = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			<-r.Context().Done()
			return true
		}
	}
	t.Run("the whole", func(t *testing.T) {
		f := newCluster(t)
		hang(f)
		o := f.options(t)
		o.Timeout = 50 * time.Millisecond
		_, err := discover(t.Context(), o, fastPace())
		if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) || hint.Of(err) == "" {
			t.Errorf("%v", err)
		}
	})
	t.Run("one attempt", func(t *testing.T) {
		f := newCluster(t)
		var tries atomic.Int32
		f.answer = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			first := tries.Load() == 1 // the connection may end before the request arrives
			if first {
				<-r.Context().Done()
			}
			return first
		}
		p := fastPace()
		// The first try only is short: a busy machine may be slow.
		p.attempt = 50 * time.Millisecond
		err := p.until(t.Context(), func(ctx context.Context) error {
			if tries.Add(1) > 1 {
				ctx = t.Context()
			}
			_, err := unverified(mustURL(t, f.server.URL)).clusterInfo(ctx)
			return err
		})
		if err != nil || tries.Load() < 2 {
			t.Errorf("%d tries, %v", tries.Load(), err)
		}
	})
	t.Run("a body that never ends", func(t *testing.T) {
		f := newCluster(t)
		f.answer = func(w http.ResponseWriter, r *http.Request, _ int) bool {
			fmt.Fprint(w, `{"kind":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}
		o := f.options(t)
		o.Timeout = 50 * time.Millisecond
		if _, err := discover(t.Context(), o, fastPace()); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		f := newCluster(t)
		ctx, cancel := context.WithCancel(t.Context())
		f.answer = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			cancel()
			<-r.Context().Done()
			return true
		}
		_, err := discover(ctx, f.options(t), fastPace())
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
	})
	t.Run("cancelled while waiting", func(t *testing.T) {
		f := newCluster(t)
		f.set(document(f.server.URL, f.ca), "")
		ctx, cancel := context.WithCancel(t.Context())
		p := fastPace()
		p.waiting = func(error) { cancel() }
		if _, err := discover(ctx, f.options(t), p); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := parseServer(text)
	must.OK(t, err)
	return u
}

//go:build linux

package main

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
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/poll"
)

const (
	concurrent  = 32
	listed      = 36      // objects of
	listedBytes = 300_000 // each
	watchers    = 50
	writes      = 60
	benched     = "bench" // the namespace
)

// end is one end of a comparison: the API server by the key file, or the bridge.
type end struct {
	url string
	tls *tls.Config
}

func newEnd(kubeconfig, kubeContext string) (end, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: kubeContext}).ClientConfig()
	if err != nil {
		return end{}, err
	}
	// With an exec user the plugin is run by the first handshake.
	c, err := rest.TLSConfigFor(config)
	return end{strings.TrimSuffix(config.Host, "/"), c}, err
}

// transport is one with no connection yet. It is client-go's: the server chooses the protocol, and
// 25 idle connections of HTTP/1.1 are kept.
func (e end) transport() *http.Transport {
	return &http.Transport{TLSClientConfig: e.tls, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 25}
}

func (e end) get(ctx context.Context, rt http.RoundTripper, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := rt.RoundTrip(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("GET %s: %s", path, resp.Status), resp.Body.Close())
	}
	return resp, err
}

// read gets path whole and returns how long the answer is.
func (e end) read(ctx context.Context, rt http.RoundTripper, path string) (int64, error) {
	resp, err := e.get(ctx, rt, path)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, resp.Body)
	return n, errors.Join(err, resp.Body.Close())
}

// work is something that is timed.
type work func(ctx context.Context) error

func (w work) run(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	err := w(ctx)
	return time.Since(begin), err
}

// ends are both sides, with what is read there.
func (b *bench) ends(ctx context.Context) (ours, theirs end, err error) {
	if err = b.lab.Unlock(ctx); err != nil {
		return ours, theirs, err
	}
	if ours, err = newEnd(b.lab.Kubeconfig, b.enrolled); err != nil {
		return ours, theirs, err
	}
	if theirs, err = newEnd(b.keyFile, controlplane.ContextName); err != nil {
		return ours, theirs, err
	}
	if !b.filled {
		err = b.fillNamespace(ctx)
		b.filled = err == nil
	}
	return ours, theirs, err
}

// bridge measures requests.
func (b *bench) bridge(ctx context.Context) error {
	ours, theirs, err := b.ends(ctx)
	if err != nil {
		return err
	}
	const list = "/api/v1/namespaces/" + benched + "/configmaps?resourceVersion=0"
	fresh := func(e end) work {
		return func(ctx context.Context) error {
			rt := e.transport()
			defer rt.CloseIdleConnections()
			_, err := e.read(ctx, rt, "/version")
			return err
		}
	}
	kept := func(path string, times int, least int64) func(end) work {
		return func(e end) work {
			rt := e.transport()
			return func(ctx context.Context) error {
				var group errgroup.Group
				for range times {
					group.Go(func() error {
						n, err := e.read(ctx, rt, path)
						if err == nil && n < least {
							err = fmt.Errorf("GET %s: %d bytes, want %d", path, n, least)
						}
						return err
					})
				}
				return group.Wait()
			}
		}
	}
	for _, r := range []struct {
		what string
		bar  float64
		do   func(end) work
	}{
		{"the bridge: one GET on a fresh connection", 1.15, fresh},
		{"the bridge: one GET on a kept connection", 1.1, kept("/version", 1, 1)},
		{fmt.Sprintf("the bridge: %d GETs at once", concurrent), 1.2, kept("/version", concurrent, 1)},
		{"the bridge: a list of 10 MB", 0.9, kept(list, 1, 10<<20)},
	} {
		if err := b.compare(ctx, row{what: r.what, against: withoutBridge, bar: r.bar}, b.n, r.do(ours),
			r.do(theirs)); err != nil {
			return err
		}
	}
	return nil
}

const withoutBridge = "the same without it"

// fillNamespace makes what is listed, and lets the user of the bench read it.
func (s *stage) fillNamespace(ctx context.Context) error {
	var objects strings.Builder
	fmt.Fprintf(&objects, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", benched)
	for i := range listed {
		fmt.Fprintf(&objects,
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: listed-%d, namespace: %s}\ndata: {a: %q}\n",
			i, benched, strings.Repeat("kubehsm ", listedBytes/8))
	}
	_, err := s.lab.Cluster.Admin(ctx, objects.String(), "create", "-f", "-")
	return err
}

// watch measures how long after a write the slowest watchers hear of it, all of
// both sides watching the same writes.
func (b *bench) watch(ctx context.Context) error {
	ours, theirs, err := b.ends(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("the bridge: %d watchers hear of a write, p99", watchers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	heard := [2]*hearing{{}, {}}
	for i, e := range []end{ours, theirs} {
		rt := e.transport()
		var ready sync.WaitGroup
		for range watchers {
			ready.Add(1)
			group.Go(func() error { return heard[i].listen(ctx, e, rt, sync.OnceFunc(ready.Done)) })
		}
		ready.Wait()
	}
	writer := theirs.transport()
	defer writer.CloseIdleConnections()
	begun := make(map[string]time.Time, writes)
	for i := range writes {
		name := fmt.Sprintf("write-%d", i)
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`, name)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, theirs.url+"/api/v1/namespaces/"+benched+"/configmaps",
			strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		begun[name] = time.Now()
		resp, err := writer.RoundTrip(req)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusCreated {
			return errors.Join(fmt.Errorf("%s: %s", what, resp.Status), err)
		}
		_ = resp.Body.Close() // the body has been read
		for _, h := range heard {
			if err := h.all(ctx, name); err != nil {
				return err
			}
		}
	}
	cancel()
	_ = group.Wait() // the watches ended because we ended them
	b.measured(row{what, withoutBridge, pair{ours: heard[0].p99(begun), theirs: heard[1].p99(begun)}, 1.1})
	return nil
}

// hearing is when the watchers of one side heard of what.
type hearing struct {
	mu sync.Mutex
	at map[string][]time.Time
}

// listen watches until ctx ends. ready is called once the server has begun to answer.
func (h *hearing) listen(ctx context.Context, e end, rt http.RoundTripper, ready func()) error {
	defer ready()
	resp, err := e.get(ctx, rt, "/api/v1/namespaces/"+benched+
		"/configmaps?watch=true&fieldSelector=metadata.name!=listed-0&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	ready()
	for lines := bufio.NewReaderSize(resp.Body, 1<<20); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		now := time.Now()
		_, rest, ok := strings.Cut(line, `"name":"write-`)
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, `"`)
		h.mu.Lock()
		if h.at == nil {
			h.at = map[string][]time.Time{}
		}
		h.at["write-"+number] = append(h.at["write-"+number], now)
		h.mu.Unlock()
	}
}

// all waits until every watcher has heard of name.
func (h *hearing) all(ctx context.Context, name string) error {
	heard := 0
	if poll.Within(time.Minute, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		heard = len(h.at[name])
		return heard >= watchers || ctx.Err() != nil
	}) {
		return ctx.Err()
	}
	return fmt.Errorf("%d of %d watchers heard of %s", heard, watchers, name)
}

func (h *hearing) p99(begun map[string]time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var took []time.Duration
	for name, at := range h.at {
		for _, moment := range at {
			took = append(took, moment.Sub(begun[name]))
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

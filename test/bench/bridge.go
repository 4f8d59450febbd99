//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

const (
	concurrent  = 32
	listed      = 36      // objects of
	listedBytes = 300_000 // each
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

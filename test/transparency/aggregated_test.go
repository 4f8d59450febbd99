//go:build linux

package transparency

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// extension is an API server behind the API server's aggregation layer. It
// serves what `kubectl top` reads, and keeps the headers of each request: they
// have come through the bridge or directly, and through the API server.
type extension struct {
	mu   sync.Mutex
	seen map[string][]string // by credential
}

func (e *extension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const root = "/apis/metrics.k8s.io/v1beta1"
	e.keep(r)
	answer := func(format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, format, args...)
	}
	const usage = `"timestamp":"2026-01-01T00:00:00Z","window":"10s"`
	switch r.URL.Path {
	case root:
		answer(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1","resources":[` +
			`{"name":"nodes","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]},` +
			`{"name":"pods","singularName":"","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]}]}`)
	case root + "/nodes":
		answer(`{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[` +
			`{"metadata":{"name":"stub"},` + usage + `,"usage":{"cpu":"250m","memory":"512Mi"}}]}`)
	case root + "/namespaces/default/pods":
		answer(`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[` +
			`{"metadata":{"name":"p","namespace":"default"},` + usage + `,"containers":[{"name":"main","usage":{"cpu":"17m","memory":"23Mi"}}]}]}`)
	case root + "/echo": // more than any object may have
		body, err := io.ReadAll(r.Body) // whole: HTTP/1.1 goes one way at a time
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write(body) // the client may have gone
	default:
		http.NotFound(w, r)
	}
}

func (e *extension) keep(r *http.Request) {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		switch name {
		case "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id", "Audit-Id", "Kubectl-Session":
			continue // another one for each credential or command
		}
		lines = append(lines, name+": "+strings.Join(r.Header[name], ", "))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	who := r.Header.Get("X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id")
	e.seen[who] = append(e.seen[who], r.Method+" "+r.URL.String()+"\n"+strings.Join(lines, "\n"))
}

// of is what was seen of a way.
func (e *extension) of(w way) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return w.common(strings.Join(slices.Sorted(slices.Values(e.seen[w.credential])), "\n\n"))
}

func (s *stage) aggregated() {
	e := &extension{seen: map[string][]string{}}
	server := httptest.NewTLSServer(e)
	s.T.Cleanup(func() {
		// The test's own context has ended by now.
		if _, err := s.Cluster.Admin(context.Background(), "", "delete", "apiservice", "v1beta1.metrics.k8s.io"); err != nil {
			s.T.Error(err)
		}
		if err := server.Config.Close(); err != nil { // the test server's Close waits for who holds a connection
			s.T.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	s.Must(err)
	s.Must(s.Cluster.Apply(s.T.Context(), fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: extension, namespace: default}, spec: {type: ExternalName, externalName: localhost, ports: [{port: %[1]s}]}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec: {group: metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
  service: {name: extension, namespace: default, port: %[1]s}}
`, port)))
	s.Admin("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=60s")

	s.wants(s.same("", "top", "node"), 0, "250m", "512Mi")
	s.wants(s.same("", "top", "pod", "--containers"), 0, "17m", "23Mi")
	body := strings.Repeat("0123456789abcdef", 1<<20/16*12)
	if res := s.same(body, "create", "--raw", "/apis/metrics.k8s.io/v1beta1/echo", "-f", "-"); res.Stdout != body {
		s.T.Errorf("%d bytes came back of %d: %.300s", len(res.Stdout), len(body), res.Stderr)
	}
	if d, b := e.of(s.direct), e.of(s.bridge); d != b || !strings.Contains(b, "Kubectl-Command: kubectl top") {
		s.T.Errorf("other headers\n--- directly:\n%s\n--- through the bridge:\n%s", d, b)
	}
	var list struct{ Items []json.RawMessage }
	s.Must(json.Unmarshal([]byte(s.same("", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes").Stdout), &list))
	if len(list.Items) != 1 {
		s.T.Errorf("%d nodes", len(list.Items))
	}
}

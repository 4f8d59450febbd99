package bridge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/consent"
	"golang.org/x/net/http2"
)

// The benchmarks compare the bridge with a direct connection to the same
// server, over HTTP/2, in one run: `go test -run - -bench . -count 5`. Only the
// ratio of the two means anything.
func BenchmarkBridge(b *testing.B) {
	type way struct {
		name string
		url  string
		tls  func() *tls.Config
	}
	r := newRig(b, rigOptions{})
	check(b, r.up.Check(context.Background()))
	cred := r.issue("prod", Client{})
	direct := func() *tls.Config {
		key, err := r.options.Signer(context.Background())
		check(b, err)
		cert := tls.Certificate{Certificate: [][]byte{r.options.Chain[0].Raw}, PrivateKey: key}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(r.api.CAPEM)
		return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}} // client-go uses no session tickets either
	}
	ways := []way{{"direct", r.api.URL, direct}, {"bridge", r.ep.URL("prod"), func() *tls.Config { return r.tls(cred) }}}
	transport := func(w way) *http2.Transport {
		return &http2.Transport{TLSClientConfig: w.tls(), DisableCompression: true}
	}
	get := func(b *testing.B, rt http.RoundTripper, url string) int64 {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		check(b, err)
		resp, err := rt.RoundTrip(req)
		check(b, err)
		n, err := io.Copy(io.Discard, resp.Body)
		check(b, err)
		check(b, resp.Body.Close())
		return n
	}
	for _, w := range ways {
		b.Run("fresh/"+w.name, func(b *testing.B) {
			for b.Loop() {
				tr := transport(w)
				get(b, tr, w.url+"/version")
				tr.CloseIdleConnections()
			}
		})
	}
	for _, w := range ways {
		b.Run("keepalive/"+w.name, func(b *testing.B) {
			tr := transport(w)
			get(b, tr, w.url+"/version")
			for b.Loop() {
				get(b, tr, w.url+"/version")
			}
			tr.CloseIdleConnections()
		})
	}
	for _, w := range ways {
		b.Run("32concurrent/"+w.name, func(b *testing.B) {
			tr := transport(w)
			get(b, tr, w.url+"/version")
			for b.Loop() {
				var wg sync.WaitGroup
				for range 32 {
					wg.Go(func() { get(b, tr, w.url+"/version") })
				}
				wg.Wait()
			}
			tr.CloseIdleConnections()
		})
	}
	for _, kind := range []string{"", "&chunked=1"} {
		for _, w := range ways {
			b.Run(fmt.Sprintf("10MB%s/%s", kind, w.name), func(b *testing.B) {
				tr := transport(w)
				b.SetBytes(10 << 20)
				for b.Loop() {
					if n := get(b, tr, fmt.Sprintf("%s/bytes?n=%d%s", w.url, 10<<20, kind)); n != 10<<20 {
						b.Fatal(n)
					}
				}
				tr.CloseIdleConnections()
			})
		}
	}
}

// BenchmarkApply sends 1 MiB of JSON by a policy that asks nobody, one that asks and has the
// body told of, and one that asks and does not.
func BenchmarkApply(b *testing.B) {
	var text strings.Builder
	text.WriteString(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"":""`)
	for i := 0; text.Len() < 1<<20; i++ {
		fmt.Fprintf(&text, `,"key-%d":"%064d"`, i, i)
	}
	text.WriteString("}}")
	for _, c := range []struct {
		name   string
		policy consent.Policy
		tell   bool
	}{{"session", consent.Policy{}, false}, {"writes/covered", consent.Policy{Mode: consent.Writes}, false},
		{"writes/asked", consent.Policy{Mode: consent.Writes}, true}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRig(b, rigOptions{policy: c.policy, ask: func(ctx context.Context, q Question) error {
				if !c.tell {
					return nil
				}
				_, err := q.Body(ctx)
				return err
			}})
			client := r.client(r.issue("prod", Client{PID: 1, Start: 1}))
			for b.Loop() {
				resp, err := client.Post(r.ep.URL("prod")+"/api/v1/namespaces/web/configmaps", "application/json",
					strings.NewReader(text.String()))
				check(b, err)
				_, err = io.Copy(io.Discard, resp.Body)
				check(b, errors.Join(err, resp.Body.Close()))
			}
		})
	}
}

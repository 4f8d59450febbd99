package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

// Stored returns the values of all keys of etcd that begin with prefix, such as
// "/registry/secrets/": what is stored, whatever the API server says.
func (c *Cluster) Stored(ctx context.Context, prefix string) ([][]byte, error) {
	pair, err := tls.LoadX509KeyPair(c.pki.etcdClient.cert, c.pki.etcdClient.key)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(c.pki.etcdCA.file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	defer transport.CloseIdleConnections()
	end := []byte(prefix)
	end[len(end)-1]++
	var all [][]byte
	for from := []byte(prefix); ; {
		var page struct {
			KVs []struct{ Key, Value []byte } `json:"kvs"`
			// More tells that there are further keys.
			More bool `json:"more"`
		}
		body, err := json.Marshal(map[string]any{"key": from, "range_end": end, "limit": 500})
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, loopback(c.state.Ports.Etcd)+"/v3/kv/range",
			bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("read etcd: %s: %w", resp.Status, err)
		}
		for _, kv := range page.KVs {
			all = append(all, kv.Value)
			from = append(kv.Key, 0)
		}
		if !page.More {
			return all, nil
		}
	}
}

package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// errPortTaken says that a server ended because its port was in use.
var errPortTaken = errors.New("the port is in use")

// readyTimeout bounds the wait for one server where the caller's context does
// not. A healthy one takes seconds; compilers beside it make it slower.
const readyTimeout = 5 * time.Minute

// waitReady polls component until it says that it is ready, it ends, or ctx does.
func (c *Cluster) waitReady(ctx context.Context, component Component, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	url, client, err := c.probe(component)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		last := get(ctx, client, url)
		if last == nil {
			return nil
		}
		if !p.Alive() {
			log := c.logTail(component, 15)
			if portTaken(log) {
				return fmt.Errorf("%s: %w", component, errPortTaken)
			}
			return fmt.Errorf("%s ended; its log ends with:\n%s", component, log)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w); its log ends with:\n%s", component, last, ctx.Err(),
				c.logTail(component, 15))
		case <-tick.C:
		}
	}
}

// probe returns where to ask component for its readiness, and the client to
// ask with: TLS is verified with the cluster's own authorities.
func (c *Cluster) probe(component Component) (string, *http.Client, error) {
	roots, identity := c.pki.ca, c.pki.admin
	var url string
	added, isAdded := c.state.Added[component]
	switch {
	case isAdded:
		url = loopback(added.Port) + "/readyz"
		if added.NextCA {
			roots = c.pki.nextCA
		}
	case component == Etcd:
		roots, identity = c.pki.etcdCA, c.pki.etcdClient
		url = loopback(c.state.Ports.Etcd) + "/readyz"
	case component == APIServer:
		url = loopback(c.state.Ports.API) + "/readyz"
	case component == Kubelet:
		identity, url = c.pki.kubeletClient, loopback(c.state.Ports.Kubelet)+"/healthz"
	default:
		url = loopback(c.state.Ports.Manager) + "/healthz"
	}
	pair, err := tls.LoadX509KeyPair(identity.cert, identity.key)
	if err != nil {
		return "", nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(roots.certificate)
	return url, &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}},
	}, nil
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

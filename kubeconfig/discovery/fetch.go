package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

const (
	// clusterInfoPath is where a cluster describes itself to everybody.
	clusterInfoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
	// maxAnswer bounds an API server's answer, in bytes: etcd takes 1.5 MiB,
	// which JSON may double.
	maxAnswer    = 4 << 20
	maxHeader    = 64 << 10
	maxRedirects = 5
)

// redirectError is a redirect that is not followed. It wraps [ErrRedirect].
type redirectError struct{ to *url.URL }

func (e *redirectError) Error() string {
	return fmt.Sprintf("%v: to %s://%s", ErrRedirect, e.to.Scheme, e.to.Host)
}
func (e *redirectError) Unwrap() error { return ErrRedirect }

// target is a server and how to tell that it is the right one.
type target struct {
	url *url.URL
	tls *tls.Config
	// proxy is used instead of the environment's, direct says to use none.
	proxy  string
	direct bool
	// redirects says whether to follow those to https.
	redirects bool
	// over, if not nil, carries requests in place of a connection of our own.
	over http.RoundTripper
}

// unverified is a server that nobody vouches for yet.
func unverified(server *url.URL) target {
	return target{url: server, tls: &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The signature on what it says decides, and then the second reading.
		InsecureSkipVerify: true,
	}}
}

// verified is a server whose certificate must chain to roots; nil means the
// system's.
func verified(server *url.URL, roots *x509.CertPool, name string) target {
	return target{url: server, tls: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name}}
}

// of is the cluster's server, verified as info says.
func of(info cluster.Cluster) (target, error) {
	server, err := parseServer(info.Server)
	if err != nil {
		return target{}, fmt.Errorf("%w: server: %w", ErrDocument, err)
	}
	if err := checkProxy(info.ProxyURL); err != nil {
		return target{}, err
	}
	certs, err := authorities(info)
	if err != nil {
		return target{}, err
	}
	var roots *x509.CertPool
	if len(certs) > 0 {
		roots = poolOf(certs)
	}
	t := verified(server, roots, info.TLSServerName)
	t.proxy, t.direct = info.ProxyURL, info.Direct
	return t, nil
}

func poolOf(certs []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}

// client makes one connection, without a credential, a cookie or a cache, or uses t.over.
func (t target) client() *http.Client {
	proxy := http.ProxyFromEnvironment
	switch {
	case t.direct && t.proxy == "":
		proxy = nil
	case t.proxy != "":
		proxy = func(*http.Request) (*url.URL, error) { return url.Parse(t.proxy) }
	}
	over := t.over
	if over == nil {
		over = &http.Transport{
			Proxy:                  proxy,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSClientConfig:        t.tls,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
			DisableKeepAlives:      true,
			DisableCompression:     true,
		}
	}
	return &http.Client{
		Transport: over,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if !t.redirects || checkURL(r.URL) != nil || len(via) > maxRedirects {
				return &redirectError{r.URL}
			}
			r.Header.Del("Referer")
			return nil
		},
	}
}

// answer is what a server said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// get reads path below the target's URL, once. limit bounds the body in bytes.
func (t target) get(ctx context.Context, path string, limit int64) (answer, error) {
	u := *t.url
	u.Path += path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", u.Host, err)
	}
	r.Header.Set("Accept", "application/json, */*;q=0.5")
	r.Header.Set("User-Agent", "kubehsm")
	resp, err := t.client().Do(r)
	if err != nil {
		return answer{}, t.failed(ctx, err)
	}
	defer resp.Body.Close() // only read from
	body, err := readBounded(resp.Body, limit)
	if errors.Is(err, ErrTooLarge) {
		return answer{}, fmt.Errorf("the answer of %s: %w", u.Host, err)
	}
	if err == nil {
		// A server that is told goodbye may end the body in good order.
		err = ctx.Err()
	}
	if err != nil {
		return answer{}, t.failed(ctx, err)
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}

// failed judges an error of the network.
func (t target) failed(ctx context.Context, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the method and the URL
	}
	if ctx.Err() != nil {
		// The call was cut short: by the caller, or as one attempt of several.
		err = context.Cause(ctx)
		if errors.Is(err, context.Canceled) {
			return err
		}
	}
	err, again := networkError(t.url.Host, err)
	if again {
		return &retryError{err: err}
	}
	return err
}

// clusterInfo reads the data of the ConfigMap cluster-info, once.
func (t target) clusterInfo(ctx context.Context) (map[string]string, error) {
	a, err := t.get(ctx, clusterInfoPath, maxAnswer)
	if err != nil {
		return nil, err
	}
	if err := t.judge(a); err != nil {
		return nil, err
	}
	var object struct {
		Kind string            `json:"kind"`
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(a.body, &object); err != nil || object.Kind != "ConfigMap" {
		return nil, t.notKubernetes("it did not answer with a ConfigMap")
	}
	if object.Data["kubeconfig"] == "" {
		return nil, hint.Withf(fmt.Errorf("%w: that of %s is empty", ErrNoClusterInfo, t.url.Host),
			"this cluster is not set up for tokens: ask for a discovery file")
	}
	return object.Data, nil
}

// judge turns a status other than 200 into an error.
func (t target) judge(a answer) error {
	host := t.url.Host
	var status struct{ Kind, Message string }
	ofAPI := json.Unmarshal(a.body, &status) == nil && status.Kind == "Status"
	said := fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
	switch {
	case a.status == http.StatusOK:
		return nil
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		why := ErrAnonymous
		if a.status == http.StatusUnauthorized {
			why = ErrAnonymousOff
		}
		return hint.Withf(fmt.Errorf("%w: %s answered %s", why, host, said),
			"its administrators have turned anonymous access off, or never allowed it for kube-public/cluster-info: ask for "+
				"a discovery file")
	case a.status == http.StatusNotFound && ofAPI:
		return hint.Withf(fmt.Errorf("%w: %s answered %s", ErrNoClusterInfo, host, said),
			"kubeadm's clusters have one, managed ones mostly do not: ask for a discovery file")
	case a.status == http.StatusTooManyRequests, a.status >= http.StatusInternalServerError:
		return &retryError{err: fmt.Errorf("%w: %s answered %s", ErrUnreachable, host, said), after: retryAfter(a.header)}
	case a.status >= 300 && a.status < 400:
		return fmt.Errorf("%w: %s answered %s", ErrRedirect, host, said)
	default:
		return t.notKubernetes("it answered " + said)
	}
}

func (t target) notKubernetes(why string) error {
	return hint.Withf(fmt.Errorf("%s: %w: %s", t.url.Host, ErrAnswer, why),
		"check the address and the port; a login page or a proxy may be in between")
}

// retryAfter is the server's wish in seconds, 0 if it has none. The form with a
// date is not used by API servers.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// readBounded reads all of r, or [ErrTooLarge] if that is more than limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return text, nil
}

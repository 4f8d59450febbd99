package upstream

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/proxy"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// dialer makes TCP connections to one API server, through its proxy if it has one.
type dialer struct {
	name    string // the enrollment's name
	address string // host:port
	proxy   *url.URL
	net     net.Dialer
}

func newDialer(server *url.URL, proxyURL string, direct bool) (*dialer, error) {
	port := server.Port()
	if port == "" {
		port = "443"
	}
	d := &dialer{address: net.JoinHostPort(server.Hostname(), port), net: net.Dialer{KeepAlive: 30 * time.Second}}
	var err error
	switch {
	case direct:
	case proxyURL != "":
		d.proxy, err = url.Parse(proxyURL)
	default: // the enrollment names no proxy, or one with a password
		d.proxy, err = http.ProxyFromEnvironment(&http.Request{URL: server})
	}
	if err != nil {
		return nil, errors.New("the proxy URL is malformed") // the error may hold a password
	}
	return d, nil
}

// dial connects. Errors wrap [ErrUnreachable] and name the host.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.connect(ctx)
	if err == nil {
		return conn, nil
	}
	err = fmt.Errorf("%w %s: %w", ErrUnreachable, d.address, shorten(err))
	if d.proxy != nil {
		return nil, hint.Withf(err,
			"it is reached through the proxy %s; check that, the network and the VPN", d.proxy.Redacted())
	}
	return nil, hint.Withf(err,
		"check the network, the VPN, and that the API server runs; if it has moved: `kubehsm kubeconfig refresh %s "+
			"--server URL`",
		d.name)
}

// shorten leaves out what the message around it says already.
func shorten(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

func (d *dialer) connect(ctx context.Context) (net.Conn, error) {
	switch {
	case d.proxy == nil:
		return d.net.DialContext(ctx, "tcp", d.address)
	case d.proxy.Scheme == "socks5" || d.proxy.Scheme == "socks5h":
		s, err := proxy.FromURL(d.proxy, &d.net)
		if err != nil {
			return nil, err
		}
		return s.(proxy.ContextDialer).DialContext(ctx, "tcp", d.address)
	}
	return d.tunnel(ctx)
}

// tunnel asks an HTTP proxy for a CONNECT tunnel (RFC 9110 section 9.3.6).
func (d *dialer) tunnel(ctx context.Context) (_ net.Conn, err error) {
	conn, err := d.dialProxy(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = conn.Close() // the error that counts is err
		}
	}()
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: d.address}, Host: d.address,
		Header: http.Header{}}
	if u := d.proxy.User; u != nil {
		password, _ := u.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	resp, rest, err := readHead(conn, req)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy answered %s", resp.Status)
	}
	if rest.Buffered() > 0 { // the server of a TLS connection does not speak first
		return nil, errors.New("the proxy sent more than its answer")
	}
	return conn, nil
}

func (d *dialer) dialProxy(ctx context.Context) (net.Conn, error) {
	port := d.proxy.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[d.proxy.Scheme]
	}
	if port == "" {
		port = "80"
	}
	address := net.JoinHostPort(d.proxy.Hostname(), port)
	if d.proxy.Scheme == "https" {
		t := tls.Dialer{NetDialer: &d.net, Config: &tls.Config{ServerName: d.proxy.Hostname(), MinVersion: tls.VersionTLS12}}
		return t.DialContext(ctx, "tcp", address)
	}
	return d.net.DialContext(ctx, "tcp", address)
}

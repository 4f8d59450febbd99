//go:build unix

package discovery

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestDocument(t *testing.T) {
	ca := newAuthority(t, "cluster")
	want := cluster.Cluster{Server: "https://a:1", CAData: []byte(ca.pem())}
	plain := document("https://a:1", ca)
	with := func(old, new string) string {
		if !strings.Contains(plain, old) {
			t.Fatalf("no %q in the document", old)
		}
		return strings.Replace(plain, old, new, 1)
	}
	tests := []struct {
		name, document string
		want           cluster.Cluster
		err            error
	}{
		{"plain", plain, want, nil},
		{"JSON", `{"kind":"Config","apiVersion":"v1","clusters":[{"name":"","cluster":{"server":"https://a:1"}}]}`, cluster.Cluster{Server: "https://a:1"}, nil},
		{"no kind", "clusters: [{name: '', cluster: {server: 'https://a:1'}}]", cluster.Cluster{Server: "https://a:1"}, nil},
		{"bare address", "clusters: [{name: '', cluster: {server: 'a:1'}}]", cluster.Cluster{Server: "https://a:1"}, nil},
		{"server name and proxy", with("    server:", "    tls-server-name: b\n    proxy-url: socks5://p:2\n    server:"),
			cluster.Cluster{Server: "https://a:1", CAData: want.CAData, TLSServerName: "b", ProxyURL: "socks5://p:2"}, nil},
		{"empty users", with("users: null", "users: [{name: u, user: {}}, {name: v, user: {extensions: [{name: x, extension: {}}]}}]"), want, nil},
		{"unknown fields", with("kind:", "future: 1\nkind:"), want, nil},

		{"empty", "", cluster.Cluster{}, ErrDocument},
		{"no YAML", "\t{", cluster.Cluster{}, ErrDocument},
		{"other kind", "kind: Pod\napiVersion: v1\n", cluster.Cluster{}, ErrDocument},
		{"list", "[]", cluster.Cluster{}, ErrDocument},
		{"no server", with("    server: https://a:1\n", ""), cluster.Cluster{}, ErrDocument},
		{"http", with("https://a:1", "http://a:1"), cluster.Cluster{}, ErrDocument},
		{"password in the URL", with("https://a:1", "https://u:p@a:1"), cluster.Cluster{}, ErrDocument},
		{"empty cluster", "clusters: [{name: ''}]", cluster.Cluster{}, ErrDocument},
		{"null cluster", "clusters: [null]", cluster.Cluster{}, ErrDocument},
		{"proxy with password", with("    server:", "    proxy-url: http://u:hunter2@p:2\n    server:"), cluster.Cluster{}, ErrCredentials},
		{"proxy of odd scheme", with("    server:", "    proxy-url: file:///x\n    server:"), cluster.Cluster{}, ErrDocument},
		{"proxy no URL", with("    server:", "    proxy-url: ':'\n    server:"), cluster.Cluster{}, ErrDocument},
		{"authority in a file", "clusters: [{name: '', cluster: {server: 'https://a:1', certificate-authority: /etc/hostname}}]", cluster.Cluster{}, ErrDocument},
		{"private key in the bundle", "clusters: [{name: '', cluster: {server: 'https://a:1', certificate-authority-data: LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWS0tLS0tCkFBQUEKLS0tLS1FTkQgRUMgUFJJVkFURSBLRVktLS0tLQo=}}]", cluster.Cluster{}, ErrCredentials},
		{"broken certificate", "clusters: [{name: '', cluster: {server: 'https://a:1', certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=}}]", cluster.Cluster{}, ErrDocument},
	}
	for _, user := range []string{
		"token: hunter2", "tokenFile: /x", "client-key: /x", "client-key-data: aHVudGVyMg==", "client-certificate: /x",
		"client-certificate-data: aHVudGVyMg==", "username: u", "password: hunter2", "as: admin", "as-groups: [g]", "as-uid: x",
		"as-user-extra: {a: [b]}", "exec: {command: rm, apiVersion: v1}", "auth-provider: {name: oidc}",
	} {
		tests = append(tests, struct {
			name, document string
			want           cluster.Cluster
			err            error
		}{user, with("users: null", "users: [{name: u, user: {"+user+"}}]"), cluster.Cluster{}, ErrCredentials})
	}
	for _, tt := range tests {
		got, err := parseDocument([]byte(tt.document), "")
		if !errors.Is(err, tt.err) || (tt.err == nil && err != nil) || !same(got, tt.want) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret in %v", tt.name, err)
		}
	}
}

func TestTooManyAuthorities(t *testing.T) {
	ca := newAuthority(t, "cluster")
	if _, err := parseCAs([]byte(strings.Repeat(ca.pem(), maxCAs))); err != nil {
		t.Error(err)
	}
	if _, err := parseCAs([]byte(strings.Repeat(ca.pem(), maxCAs+1))); !errors.Is(err, ErrDocument) {
		t.Errorf("%v", err)
	}
}

func TestByFile(t *testing.T) {
	ca := newAuthority(t, "cluster")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("ca.pem", ca.pem())
	pipe := filepath.Join(dir, "fifo")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	named := "clusters: [{name: '', cluster: {server: 'https://a:1', certificate-authority: %s}}]"
	want := cluster.Cluster{Server: "https://a:1", CAData: []byte(ca.pem())}
	for name, path := range map[string]string{
		"plain":    write("plain", document("https://a:1", ca)),
		"relative": write("relative", fmt.Sprintf(named, "ca.pem")),
		"absolute": write("absolute", fmt.Sprintf(named, filepath.Join(dir, "ca.pem"))),
	} {
		got, err := Discover(t.Context(), Options{File: path})
		if err != nil || !same(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, tt := range map[string]struct {
		path string
		want error
	}{
		"missing":           {filepath.Join(dir, "none"), os.ErrNotExist},
		"missing authority": {write("noca", fmt.Sprintf(named, "none.pem")), ErrDocument},
		"authority too big": {write("bigca", fmt.Sprintf(named, write("big.pem", strings.Repeat("x", maxDocument+1)))), ErrDocument},
		"authority a pipe":  {write("pipe", fmt.Sprintf(named, pipe)), ErrDocument},
		"authority endless": {write("endless", fmt.Sprintf(named, "/dev/zero")), ErrDocument},
		"too big":           {write("big", strings.Repeat("#", maxDocument+1)), ErrTooLarge},
		"credentials":       {write("cred", "users: [{name: u, user: {token: x}}]"), ErrCredentials},
	} {
		if _, err := Discover(t.Context(), Options{File: tt.path}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Discover(t.Context(), Options{File: dir}); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("folder: %v", err)
	}
}

func TestByStream(t *testing.T) {
	ca := newAuthority(t, "cluster")
	from := func(r io.Reader) (cluster.Cluster, error) {
		return Discover(t.Context(), Options{File: Stdin, Stdin: r})
	}
	got, err := from(iotest.OneByteReader(strings.NewReader(document("https://a:1", ca))))
	if err != nil || got.Server != "https://a:1" {
		t.Errorf("%+v, %v", got, err)
	}
	broken := errors.New("broken pipe")
	for name, tt := range map[string]struct {
		r    io.Reader
		want error
	}{
		"endless":            {endless{}, ErrTooLarge},
		"broken":             {iotest.ErrReader(broken), broken},
		"names a local file": {strings.NewReader("clusters: [{name: '', cluster: {server: 'https://a:1', certificate-authority: ca.pem}}]"), ErrDocument},
	} {
		if _, err := from(tt.r); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w := io.Pipe()
	defer w.Close()
	if _, err := Discover(ctx, Options{File: Stdin, Stdin: r}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// web is an https server of discovery files, and its authority.
func web(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *x509.CertPool) {
	ca := newAuthority(t, "web")
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.server(t)}}
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, poolOf([]*x509.Certificate{ca.cert})
}

func TestByURL(t *testing.T) {
	ca := newAuthority(t, "cluster")
	good := document("https://a:1", ca)
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("plain http was spoken")
	}))
	defer plain.Close()
	tries := map[string]int{}
	server, roots := web(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" || r.Header.Get("Cookie") != "" {
			t.Errorf("headers %v", r.Header)
		}
		tries[r.URL.Path]++
		switch r.URL.Path {
		case "/good":
			fmt.Fprint(w, good)
		case "/moved", "/moved2":
			http.Redirect(w, r, "/good?x=y", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/user":
			http.Redirect(w, r, "https://u:p@"+r.Host+"/good", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/busy":
			if tries["/busy"] < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, good)
		case "/later":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		case "/big":
			fmt.Fprint(w, strings.Repeat("#", maxDocument+1))
		case "/credentials":
			fmt.Fprint(w, "users: [{name: u, user: {token: x}}]")
		case "/localfile":
			fmt.Fprint(w, "clusters: [{name: '', cluster: {server: 'https://a:1', certificate-authority: /etc/hostname}}]")
		case "/html":
			fmt.Fprint(w, "<html>log in</html>")
		case "/401":
			w.WriteHeader(401)
		case "/204":
			w.WriteHeader(204)
		default:
			http.NotFound(w, r)
		}
	})
	for path, want := range map[string]error{
		"/good": nil, "/good?a=b": nil, "/moved": nil, "/busy": nil,
		"/plain": ErrRedirect, "/user": ErrRedirect, "/loop": ErrRedirect, "/later": ErrUnreachable, "/big": ErrTooLarge,
		"/credentials": ErrCredentials, "/localfile": ErrDocument, "/html": ErrDocument, "/401": ErrDocument, "/204": ErrDocument, "/none": ErrDocument,
	} {
		got, err := discover(t.Context(), Options{File: server.URL + path, Roots: roots}, fastPace())
		if want == nil && (err != nil || got.Server != "https://a:1" || string(got.CAData) != ca.pem()) {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
		if want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if tries["/loop"] != maxRedirects+1 || tries["/later"] != 1 {
		t.Errorf("tries %v", tries)
	}
	// The system does not know the test's authority.
	if _, err := discover(t.Context(), Options{File: server.URL + "/good"}, fastPace()); !errors.Is(err, ErrUntrusted) {
		t.Errorf("system's authorities: %v", err)
	}
	o := Options{File: "https://" + plain.Listener.Addr().String(), Roots: roots}
	if _, err := discover(t.Context(), o, fastPace()); !errors.Is(err, ErrAnswer) {
		t.Errorf("no TLS: %v", err)
	}
}

func TestByURLHasATimeout(t *testing.T) {
	server, roots := web(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	o := Options{File: server.URL, Roots: roots, Limits: Limits{Timeout: 50 * time.Millisecond}}
	if _, err := discover(t.Context(), o, fastPace()); !errors.Is(err, ErrUnreachable) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestDataFile: a document by itself is found without any network, and one that was cut is refused.
func TestDataFile(t *testing.T) {
	ca := []byte(newAuthority(t, "cluster").pem())
	want := cluster.Cluster{Server: "https://prod.example:6443", CAData: ca, TLSServerName: "kubernetes"}
	file, err := DataFile(want)
	if err != nil || !IsData(file) {
		t.Fatalf("%q, %v", file, err)
	}
	got, err := Discover(t.Context(), Options{File: file})
	if err != nil || got.Server != want.Server || got.TLSServerName != want.TLSServerName || !bytes.Equal(got.CAData, ca) {
		t.Errorf("found %+v, %v", got, err)
	}
	for cut, hinted := range map[string]bool{file[:len(file)-3]: true, file[:len(file)-8]: false, dataPrefix: false} {
		if _, err := Discover(t.Context(), Options{File: cut}); !errors.Is(err, ErrDocument) || hinted && hint.Of(err) == "" {
			t.Errorf("%d bytes of %d: %v", len(cut), len(file), err)
		}
	}
}

package bridge

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/test/need"
)

func TestRefusals(t *testing.T) {
	r := newRig(t, rigOptions{})
	good := r.issue("prod", Client{PID: 1, Start: 1})
	other := r.issue("test", Client{PID: 1, Start: 1})
	earlier, err := NewSessions(time.Now) // an agent that was killed
	check(t, err)
	old, err := earlier.Issue("prod", Client{PID: 1, Start: 1}, nil)
	check(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	// A key file's, which the API server itself would take.
	foreign := &Credential{Certificate: loopback.CertificatePEM(r.api.Certificate(t, key.Public(), "alice",
		time.Hour).Raw),
		Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})}
	expired := r.issue("prod", Client{PID: 2, Start: 1})
	r.sessions.mu.Lock()
	r.sessions.byOwner[owner{"prod", Client{PID: 2, Start: 1}}].issued.Store(time.Now().Add(-leftFor).UnixNano())
	r.sessions.mu.Unlock()

	for _, c := range []struct {
		name   string
		cred   *Credential
		path   string
		host   string
		header string
		method string
		code   int
		words  string
	}{
		{"fine", good, "/c/prod/version", "", "", "", 200, ""},
		{"fine by name", good, "/c/prod/version", "localhost:1", "", "", 200, ""},
		{"its own origin by http", good, "/c/prod/version", "", "Origin: http://HOST", "", 200, ""},
		{"its own origin", good, "/c/prod/version", "", "Origin: https://HOST", "", 200, ""},
		{"no certificate", nil, "/c/prod/version", "", "", "", 401, "no client certificate"},
		{"a certificate of its own", foreign, "/c/prod/version", "", "", "", 401, "accepts only client certificates that the agent issued"},
		{"another agent's", &old, "/c/prod/version", "", "", "", 401, "run the command again; restart a program"},
		{"ended", expired, "/c/prod/version", "", "", "", 401, "ended"},
		{"another enrollment's path", good, "/c/test/version", "", "", "", 403, `"prod"`},
		{"not prepared", other, "/c/test/version", "", "", "", 401, "locked"},
		{"a name in disguise", good, "/c/%70rod/version", "", "", "", 403, "mixes two"},
		{"no name", good, "/c//version", "", "", "", 404, "/c/NAME"},
		{"the name alone", good, "/c", "", "", "", 404, "/c/NAME"},
		{"no name with a query", good, "/c?version", "", "", "", 404, "/c/NAME"},
		{"bare path", good, "/version", "", "", "", 200, ""},
		{"bare path without a certificate", nil, "/version", "", "", "", 401, "no client certificate"},
		{"a whole URL", good, "https://127.0.0.1/c/prod/version", "", "", "", 404, "a path is asked for"},
		{"a whole URL of another", good, "https://127.0.0.1/c/test/version", "", "", "", 404, "a path is asked for"},
		{"asterisk", good, "*", "", "", "OPTIONS", 404, "a path is asked for"},
		{"bearer token", good, "/c/prod/version", "", "Authorization: Bearer x", "", 401, "--token"},
		{"bare with token", nil, "/c/prod/version", "", "Authorization: Bearer x", "", 401, "--token"},
		{"rebinding", good, "/c/prod/version", "evil.example:443", "", "", 403, "Host"},
		{"rebinding with a prefix", good, "/c/prod/version", "127.0.0.1.evil.example", "", "", 403, "Host"},
		{"web page", good, "/c/prod/version", "", "Origin: https://evil.example", "", 403, "web pages"},
		{"null origin", good, "/c/prod/version", "", "Origin: null", "", 403, "web pages"},
		{"Node's fetch", good, "/c/prod/version", "", "Sec-Fetch-Mode: cors", "", 200, ""},
		{"Node's fetch without a certificate", nil, "/c/prod/version", "", "Sec-Fetch-Mode: cors", "", 401, "no client certificate"},
		{"browser", good, "/c/prod/version", "", "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Site: cross-site", "", 403, "web pages"},
		{"browser, site alone", good, "/c/prod/version", "", "sec-fetch-site: same-origin", "", 403, "web pages"},
		{"browser, destination alone", good, "/c/prod/version", "", "Sec-Fetch-Dest: image", "", 403, "web pages"},
		{"browser, by the user", good, "/c/prod/version", "", "Sec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1", "", 403, "web pages"},
		{"web page by Node's mode", good, "/c/prod/version", "", "Sec-Fetch-Mode: cors\r\nOrigin: https://evil.example", "", 403, "web pages"},
		{"connect", good, "/c/prod/version", "", "", "CONNECT", 405, "CONNECT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := c.host
			if host == "" {
				host = r.ep.Address()
			}
			method := c.method
			if method == "" {
				method = "GET"
			}
			conn, err := tls.Dial("tcp", r.ep.Address(), r.tls(c.cred, "http/1.1"))
			check(t, err)
			defer conn.Close()
			header := strings.ReplaceAll(c.header, "HOST", host)
			if header != "" {
				header += "\r\n"
			}
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", method, c.path, host, header)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			check(t, err)
			b, err := io.ReadAll(resp.Body)
			check(t, err)
			if resp.StatusCode != c.code {
				t.Fatalf("%s: %s", resp.Status, b)
			}
			if c.words != "" {
				refused(t, string(b), int32(c.code), c.words)
			}
		})
	}
	if log := r.log.String(); strings.Contains(log, "Bearer") {
		t.Errorf("a credential is in the log: %s", log)
	}
}

// TestPathsWithoutName: "kubectl proxy" leaves out the path of its server. What
// does not begin with /c goes to the certificate's own API server as it is,
// however it may look.
func TestPathsWithoutName(t *testing.T) {
	r := newRig(t, rigOptions{prefix: "/k8s"})
	conn, err := tls.Dial("tcp", r.ep.Address(), r.tls(r.issue("prod", Client{PID: 1, Start: 1}), "http/1.1"))
	check(t, err)
	defer conn.Close()
	br := bufio.NewReader(conn)
	for _, path := range []string{"/api/v1/pods?limit=5", "/", "/cluster", "/C/test/x", "/%63/test/x", "/./c/test/x",
		"/x/../c/test/x", "//c/test/x", "/c%2ftest/x"} {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, r.ep.Address())
		resp, err := http.ReadResponse(br, nil)
		check(t, err)
		var a bridgetest.Arrived
		check(t, json.NewDecoder(resp.Body).Decode(&a))
		_, err = io.Copy(io.Discard, resp.Body)
		check(t, err)
		if a.Target != "/k8s"+path || a.User != "alice" {
			t.Errorf("%s arrives as %+v", path, a)
		}
	}
}

func TestPeerUID(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sock_diag is Linux's")
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	check(t, err)
	defer c.Close()
	client, server := netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(l.Addr().String())
	check(t, sameUser(client, server))
	if err := sameUser(netip.AddrPortFrom(client.Addr(), 1), server); err == nil {
		t.Fatal("a socket that does not exist was taken for ours")
	}
}

// Another user's connection is refused, whatever certificate it shows.
func TestOtherUserIsRefused(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells whose connection it is")
	}
	if os.Geteuid() != 0 {
		need.Missing(t, "only root can start a program as somebody else")
	}
	curl := need.Program(t, "curl") // any program that somebody else can run
	r := newRig(t, rigOptions{})
	for range maxStrangers + 1 { // each leaves its place
		out, err := asNobody(exec.Command(curl, "-sk", r.ep.URL("prod")+"/version")).CombinedOutput()
		check(t, err)
		refused(t, string(out), 403, "another user")
	}
}

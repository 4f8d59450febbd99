package discovery

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/test/must"
)

const (
	tokenID     = "abcdef"
	tokenSecret = "0123456789abcdef"
)

func testToken(t testing.TB) bootstraptoken.Token {
	t.Helper()
	token, err := bootstraptoken.Parse([]byte(tokenID + "." + tokenSecret))
	must.OK(t, err)
	return token
}

// fastPace repeats at once; no test depends on how long it takes.
func fastPace() pace {
	return pace{first: time.Millisecond, most: 2 * time.Millisecond, attempt: 20 * time.Second}
}

// authority is a certificate authority of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return authority{key: key}.renewed(t, name)
}

// renewed is another certificate for the same key.
func (a authority) renewed(t testing.TB, name string) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return authority{certify(t, template, template, &a.key.PublicKey, a.key), a.key}
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must.OK(t, err)
	return n
}

func certify(t testing.TB, template, parent *x509.Certificate, pub *ecdsa.PublicKey,
	key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	must.OK(t, err)
	cert, err := x509.ParseCertificate(der)
	must.OK(t, err)
	return cert
}

// server issues a server's certificate, by default for 127.0.0.1 and now.
func (a authority) server(t testing.TB, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"api.example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, c := range change {
		c(template)
	}
	return tls.Certificate{Certificate: [][]byte{certify(t, template, a.cert, &key.PublicKey, a.key).Raw}, PrivateKey: key}
}

func (a authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

func (a authority) pin() Pin { return PinOf(a.cert) }

// document is a kubeconfig with one unnamed cluster, as cluster-info has it.
func document(server string, cas ...authority) string {
	var bundle strings.Builder
	for _, ca := range cas {
		bundle.WriteString(ca.pem())
	}
	ca, err := json.Marshal([]byte(bundle.String()))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: %s\n    server: %s\n  name: \"\"\ncontexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n", ca, server)
}

// signWith is a detached JWS with any header.
func signWith(header, content, secret string) string {
	h := base64url.EncodeToString([]byte(header))
	mac := hmac.New(sha256.New, []byte(secret))
	if _, err := io.WriteString(mac, h+"."+base64url.EncodeToString([]byte(content))); err != nil {
		panic(err)
	}
	return h + ".." + base64url.EncodeToString(mac.Sum(nil))
}

func sign(content string) string {
	return signWith(`{"alg":"HS256","kid":"`+tokenID+`"}`, content, tokenSecret)
}

// fakeCluster serves cluster-info on TLS, as an API server does to everybody,
// and watches that nobody tells it a secret.
type fakeCluster struct {
	t      *testing.T
	ca     authority
	server *httptest.Server

	mu       sync.Mutex
	data     map[string]string
	requests int
	// answer, if set, is asked first with the number of the request, from 1;
	// true means that it has answered.
	answer func(w http.ResponseWriter, r *http.Request, n int) bool
}

// newCluster runs a cluster whose cluster-info names it and its authority.
func newCluster(t *testing.T) *fakeCluster {
	ca := newAuthority(t, "cluster")
	return newClusterWith(t, ca, ca.server(t))
}

func newClusterWith(t *testing.T, ca authority, cert tls.Certificate) *fakeCluster {
	t.Helper()
	f := &fakeCluster{t: t, ca: ca}
	f.server = httptest.NewUnstartedServer(f)
	f.server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert}
	f.server.Config.ErrorLog = quiet()
	f.server.StartTLS()
	t.Cleanup(f.server.Close)
	f.publish(document(f.server.URL, ca))
	return f
}

// quiet drops a server's words about refused handshakes: they are on purpose.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// publish signs a kubeconfig and serves it.
func (f *fakeCluster) publish(kubeconfig string) { f.set(kubeconfig, sign(kubeconfig)) }

func (f *fakeCluster) set(kubeconfig, signature string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = map[string]string{"kubeconfig": kubeconfig}
	if signature != "" {
		f.data["jws-kubeconfig-"+tokenID] = signature
	}
}

func (f *fakeCluster) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *fakeCluster) endpoint() string { return f.server.Listener.Addr().String() }

func (f *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.requests++
	n, data := f.requests, f.data
	f.mu.Unlock()
	f.checkAnonymous(r)
	if f.answer != nil && f.answer(w, r, n) {
		return
	}
	if r.Method != http.MethodGet || r.URL.Path != "/api/v1/namespaces/kube-public/configmaps/cluster-info" ||
		r.URL.RawQuery != "" {
		f.t.Errorf("unexpected request %s %s", r.Method, r.URL)
	}
	w.Header().Set("Content-Type", "application/json")
	err := json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data})
	if err != nil {
		f.t.Error(err)
	}
}

func (f *fakeCluster) checkAnonymous(r *http.Request) {
	for name, values := range r.Header {
		switch name {
		case "Accept", "User-Agent", "Connection":
		default:
			f.t.Errorf("header %s: %q was sent", name, values)
		}
	}
	if len(r.TLS.PeerCertificates) > 0 {
		f.t.Error("a client certificate was sent")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) > 0 {
		f.t.Errorf("body %q, %v", body, err)
	}
	if all := fmt.Sprint(r.Method, r.URL, r.Header); strings.Contains(all, tokenSecret) || strings.Contains(all, tokenID) {
		f.t.Errorf("the token was sent: %s", all)
	}
}

// status answers as an API server refuses.
func status(w http.ResponseWriter, code int) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":%d}`, code)
	return true
}

// options start from the cluster's token, with its authority pinned.
func (f *fakeCluster) options(t *testing.T) Options {
	return Options{Endpoint: f.endpoint(), Token: testToken(t), Pins: []Pin{f.ca.pin()}}
}

// same tells whether both say the same.
func same(a, b cluster.Cluster) bool {
	if !bytes.Equal(a.CAData, b.CAData) {
		return false
	}
	a.CAData, b.CAData = nil, nil // nil or empty is the same
	return reflect.DeepEqual(a, b)
}

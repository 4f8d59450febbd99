package discovery

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/test/must"
)

func TestByToken(t *testing.T) {
	f := newCluster(t)
	other := newAuthority(t, "other")
	both := document(f.server.URL, other, f.ca, f.ca)
	named := strings.NewReplacer(`name: ""`, "name: a", "contexts: null",
		"contexts: [{name: c, context: {cluster: a, user: u}}]",
		`current-context: ""`, "current-context: c", "users: null", "users: [{name: u, user: {}}]").Replace(document(f.server.URL, f.ca))
	tests := []struct {
		name     string
		document string
		change   func(*Options)
		ca       string
	}{
		{"one authority, pinned", document(f.server.URL, f.ca), func(*Options) {}, f.ca.pem()},
		{"several pins", document(f.server.URL, f.ca), func(o *Options) { o.Pins = []Pin{{}, other.pin(), f.ca.pin()} }, f.ca.pem()},
		{"only pinned ones are kept", both, func(*Options) {}, f.ca.pem()},
		{"both pinned", both, func(o *Options) { o.Pins = []Pin{f.ca.pin(), other.pin()} }, other.pem() + f.ca.pem()},
		{"no pins", both, func(o *Options) { o.Pins, o.UnsafeSkipCAVerification = nil, true }, other.pem() + f.ca.pem()},
		{"https URL", document(f.server.URL, f.ca), func(o *Options) { o.Endpoint = "https://" + o.Endpoint + "/" }, f.ca.pem()},
		{"a cluster with a name", named, func(*Options) {}, f.ca.pem()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f.publish(tt.document)
			o := f.options(t)
			tt.change(&o)
			before := f.count()
			got, err := discover(t.Context(), o, fastPace())
			must.OK(t, err)
			if want := (cluster.Cluster{Server: f.server.URL, CAData: []byte(tt.ca)}); !same(got, want) {
				t.Errorf("got %+v", got)
			}
			if n := f.count() - before; n != 2 {
				t.Errorf("%d requests: one unverified and one verified are right", n)
			}
		})
	}
}

// TestRefusedSignatureAndDocument has what a cluster, or somebody in between, may say.
func TestRefusedSignatureAndDocument(t *testing.T) {
	f := newCluster(t)
	other := newAuthority(t, "other")
	good := document(f.server.URL, f.ca)
	mutate := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q in the document", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	parts := strings.Split(sign(good), ".")
	hs256 := func(extra string) string { return `{"alg":"HS256","kid":"abcdef"` + extra + `}` }
	payload := base64url.EncodeToString([]byte(good))
	// 32 bytes leave two spare bits in the last of 43 characters.
	last := strings.IndexByte(alphabet, parts[2][42])
	spare := parts[0] + ".." + parts[2][:42] + string(alphabet[last+1])

	tests := []struct {
		name, document, signature string
		want                      error
	}{
		{"no signature", good, "", ErrUnknownToken},
		{"wrong secret", good, signWith(hs256(""), good, "0123456789abcdee"), ErrSignature},
		{"wrong kid", good, signWith(`{"alg":"HS256","kid":"ghijkl"}`, good, tokenSecret), ErrSignature},
		{"no kid", good, signWith(`{"alg":"HS256"}`, good, tokenSecret), ErrSignature},
		{"no algorithm", good, signWith(`{"alg":"none","kid":"abcdef"}`, good, tokenSecret), ErrSignature},
		{"alg none, unsigned", good, base64url.EncodeToString([]byte(`{"alg":"none","kid":"abcdef"}`)) + "..", ErrSignature},
		{"HS512", good, signWith(`{"alg":"HS512","kid":"abcdef"}`, good, tokenSecret), ErrSignature},
		{"RS256", good, signWith(`{"alg":"RS256","kid":"abcdef"}`, good, tokenSecret), ErrSignature},
		{"header says more", good, signWith(hs256(`,"b64":false`), good, tokenSecret), ErrSignature},
		{"header in another order", good, signWith(`{"kid":"abcdef","alg":"HS256"}`, good, tokenSecret), ErrSignature},
		{"header with spaces", good, signWith(`{"alg": "HS256", "kid": "abcdef"}`, good, tokenSecret), ErrSignature},
		{"header no JSON", good, signWith(`x`, good, tokenSecret), ErrSignature},
		{"header no base64", good, "***.." + parts[2], ErrSignature},
		{"payload attached", good, parts[0] + "." + payload + "." + parts[2], ErrSignature},
		{"two parts", good, parts[0] + "." + parts[2], ErrSignature},
		{"four parts", good, sign(good) + ".x", ErrSignature},
		{"only dots", good, "..", ErrSignature},
		{"no form", good, "bar", ErrSignature},
		{"cut short", good, parts[0] + ".." + parts[2][:40], ErrSignature},
		{"nothing signed", good, parts[0] + "..", ErrSignature},
		{"padded", good, sign(good) + "=", ErrSignature},
		{"line end", good, sign(good) + "\n", ErrSignature},
		{"spare bits", good, spare, ErrSignature},
		{"tampered server", mutate("127.0.0.1", "127.0.0.2"), sign(good), ErrSignature},
		{"tampered by a line end", good + "\n", sign(good), ErrSignature},
		{"extra authority, unsigned", document(f.server.URL, f.ca, other), sign(good), ErrSignature},

		{"authority not pinned", document(f.server.URL, other), "sign", ErrNotPinned},
		{"no authority", mutate("certificate-authority-data", "x"), "sign", ErrDocument},
		{"authority no PEM", mutate("certificate-authority-data: \"", "certificate-authority-data: \"QUJD"), "sign", ErrDocument},
		{"two clusters", mutate("contexts:", "- cluster: {server: https://b:1}\n  name: b\ncontexts:"), "sign", ErrDocument},
		{"two of one name", mutate("contexts:", "- cluster: {server: https://b:1}\n  name: \"\"\ncontexts:"), "sign", ErrDocument},
		{"no cluster", "apiVersion: v1\nkind: Config\n", "sign", ErrDocument},
		{"named, no context", mutate(`name: ""`, "name: a"), "sign", ErrDocument},
		{"context of another", strings.NewReplacer(`name: ""`, "name: a", "contexts: null", "contexts: [{name: c, context: {cluster: b}}]", `current-context: ""`, "current-context: c").Replace(good), "sign", ErrDocument},
		{"credentials", mutate("users: null", "users: [{name: u, user: {token: abc}}]"), "sign", ErrCredentials},
		{"http", mutate("https://", "http://"), "sign", ErrDocument},
		{"verification off", mutate("server:", "insecure-skip-tls-verify: true\n    server:"), "sign", ErrDocument},
		{"no kubeconfig", "{", "sign", ErrDocument},
		{"empty", "", "sign", ErrNoClusterInfo},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.signature == "sign" {
				tt.signature = sign(tt.document)
			}
			f.set(tt.document, tt.signature)
			o := f.options(t)
			o.SignatureWait = time.Nanosecond
			before := f.count()
			got, err := discover(t.Context(), o, fastPace())
			if !errors.Is(err, tt.want) || !same(got, cluster.Cluster{}) {
				t.Fatalf("%+v, %v", got, err)
			}
			if strings.Contains(err.Error()+hint.Of(err), tokenSecret) {
				t.Errorf("the error shows the token: %v", err)
			}
			if n := f.count() - before; n > 2 || (n == 2 && tt.want != ErrUnknownToken) {
				t.Errorf("%d requests", n)
			}
		})
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func TestWaitsForTheSignature(t *testing.T) {
	f := newCluster(t)
	kubeconfig := document(f.server.URL, f.ca)
	f.set(kubeconfig, "")
	f.answer = func(_ http.ResponseWriter, _ *http.Request, n int) bool {
		if n == 3 { // seen by the fourth
			f.publish(kubeconfig)
		}
		return false
	}
	var reasons []error
	o := f.options(t)
	p := fastPace()
	p.waiting = func(err error) { reasons = append(reasons, err) }
	if _, err := discover(t.Context(), o, p); err != nil {
		t.Fatal(err)
	}
	if len(reasons) != 3 || !errors.Is(reasons[0], ErrUnknownToken) || hint.Of(reasons[0]) == "" {
		t.Errorf("waited for %v", reasons)
	}
	if n := f.count(); n != 5 {
		t.Errorf("%d requests", n)
	}
}

func TestSecondReadingMustBeTheSame(t *testing.T) {
	f := newCluster(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request, n int) bool {
		if n == 2 {
			fmt.Fprintf(w, `{"kind":"ConfigMap","data":{"kubeconfig":%q}}`, document(f.server.URL, f.ca)+"\n")
		}
		return n == 2
	}
	if _, err := discover(t.Context(), f.options(t), fastPace()); !errors.Is(err, ErrDiffers) || hint.Of(err) == "" {
		t.Errorf("%v", err)
	}
}

// TestServerMustVerify: somebody relays the true, signed cluster-info, but has
// no certificate of the pinned authority.
func TestServerMustVerify(t *testing.T) {
	ca, other := newAuthority(t, "cluster"), newAuthority(t, "other")
	for name, tt := range map[string]struct {
		issuer authority
		change func(*x509.Certificate)
		unsafe bool
	}{
		"other authority":          {issuer: other},
		"other authority, no pins": {issuer: other, unsafe: true},
		"other name":               {issuer: ca, change: func(c *x509.Certificate) { c.IPAddresses = nil }},
		"expired":                  {issuer: ca, change: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }},
		"for clients only":         {issuer: ca, change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*x509.Certificate) {}
			}
			f := newClusterWith(t, ca, tt.issuer.server(t, tt.change))
			o := f.options(t)
			if tt.unsafe {
				o.Pins, o.UnsafeSkipCAVerification = nil, true
			}
			if _, err := discover(t.Context(), o, fastPace()); !errors.Is(err, ErrUntrusted) || hint.Of(err) == "" {
				t.Errorf("%v", err)
			}
			if n := f.count(); n != 1 {
				t.Errorf("%d requests were answered", n)
			}
		})
	}
	t.Run("authority in the bundle but not pinned", func(t *testing.T) {
		f := newClusterWith(t, ca, other.server(t))
		f.publish(document(f.server.URL, ca, other))
		if _, err := discover(t.Context(), f.options(t), fastPace()); !errors.Is(err, ErrUntrusted) {
			t.Errorf("%v", err)
		}
	})
}

// TestServerName: cluster-info may name what to expect in its own server's
// certificate.
func TestServerName(t *testing.T) {
	ca := newAuthority(t, "cluster")
	f := newClusterWith(t, ca, ca.server(t, func(c *x509.Certificate) { c.IPAddresses = nil }))
	f.publish(strings.Replace(document(f.server.URL, ca), "    server:", "    tls-server-name: api.example\n    server:",
		1))
	got, err := discover(t.Context(), f.options(t), fastPace())
	if err != nil || got.TLSServerName != "api.example" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnswersOfOthers(t *testing.T) {
	long := strings.Repeat("x", maxAnswer)
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter) bool
		want   error
	}{
		{"401", func(w http.ResponseWriter) bool { return status(w, 401) }, ErrAnonymousOff},
		{"403", func(w http.ResponseWriter) bool { return status(w, 403) }, ErrAnonymous},
		{"404", func(w http.ResponseWriter) bool { return status(w, 404) }, ErrNoClusterInfo},
		{"404 of a web server", func(w http.ResponseWriter) bool { w.WriteHeader(404); return true }, ErrAnswer},
		{"410", func(w http.ResponseWriter) bool { return status(w, 410) }, ErrAnswer},
		{"login page", func(w http.ResponseWriter) bool { fmt.Fprint(w, "<html>log in"); return true }, ErrAnswer},
		{"another object", func(w http.ResponseWriter) bool {
			fmt.Fprint(w, `{"kind":"Secret","data":{"kubeconfig":"x"}}`)
			return true
		}, ErrAnswer},
		{"data of another type", func(w http.ResponseWriter) bool {
			fmt.Fprint(w, `{"kind":"ConfigMap","data":{"kubeconfig":1}}`)
			return true
		}, ErrAnswer},
		{"no data", func(w http.ResponseWriter) bool { fmt.Fprint(w, `{"kind":"ConfigMap"}`); return true }, ErrNoClusterInfo},
		{"too long", func(w http.ResponseWriter) bool { fmt.Fprint(w, long, "x"); return true }, ErrTooLarge},
		{"header too long", func(w http.ResponseWriter) bool { w.Header().Set("X", long[:maxHeader]); return true }, ErrTooLarge},
		{"redirect", func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(302)
			return true
		}, ErrRedirect},
		{"redirect to http", func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "http://elsewhere.example/")
			w.WriteHeader(307)
			return true
		}, ErrRedirect},
		{"redirect nowhere", func(w http.ResponseWriter) bool { w.WriteHeader(304); return true }, ErrRedirect},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newCluster(t)
			f.answer = func(w http.ResponseWriter, _ *http.Request, _ int) bool { return tt.answer(w) }
			_, err := discover(t.Context(), f.options(t), fastPace())
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v", err)
			}
			if n := f.count(); n != 1 {
				t.Errorf("%d requests", n)
			}
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if hint.Of(err) == "" && tt.want != ErrTooLarge && tt.want != ErrRedirect {
				t.Errorf("no hint with %v", err)
			}
		})
	}
}

func TestNobodyThere(t *testing.T) {
	f := newCluster(t)
	o := f.options(t)
	o.Timeout = 50 * time.Millisecond
	f.server.Close()
	if _, err := discover(t.Context(), o, fastPace()); !errors.Is(err, ErrUnreachable) || hint.Of(err) == "" {
		t.Errorf("closed: %v", err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	o = f.options(t)
	o.Endpoint = plain.Listener.Addr().String()
	if _, err := discover(t.Context(), o, fastPace()); !errors.Is(err, ErrAnswer) || hint.Of(err) == "" {
		t.Errorf("no TLS: %v", err)
	}
	err, again := networkError("x:1", &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}})
	if !errors.Is(err, ErrUnreachable) || again || !strings.Contains(hint.Of(err), "resolve") {
		t.Errorf("no such name: %v, %v", err, again)
	}
}

func TestDiscoverChecksItsOptions(t *testing.T) {
	f := newCluster(t)
	o := f.options(t)
	o.Pins = nil
	var input *InputError
	if _, err := Discover(t.Context(), o); !errors.As(err, &input) || f.count() != 0 {
		t.Errorf("%v after %d requests", err, f.count())
	}
	if _, err := Discover(t.Context(), f.options(t)); err != nil {
		t.Error(err)
	}
}

func TestTokenSurvives(t *testing.T) {
	f := newCluster(t)
	o := f.options(t)
	if _, err := discover(t.Context(), o, fastPace()); err != nil {
		t.Fatal(err)
	}
	if !o.Token.Equal(testToken(t)) || o.Token.Equal(bootstraptoken.Token{}) {
		t.Error("the token is gone: the request still needs it")
	}
}

package discovery

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
)

func TestValidateOptions(t *testing.T) {
	token := testToken(t)
	good := Options{Endpoint: "h:6443", Token: token, Pins: []Pin{{}}}
	tests := []struct {
		name  string
		o     Options
		field string // "" if all is well
	}{
		{"token", good, ""},
		{"unsafe", Options{Endpoint: "h:6443", Token: token, UnsafeSkipCAVerification: true}, ""},
		{"file", Options{File: "x"}, ""},
		{"URL", Options{File: "https://h/x?y#z"}, ""},
		{"stream", Options{File: "-", Stdin: strings.NewReader("")}, ""},
		{"Windows path", Options{File: `C:\x`}, ""},

		{"nothing", Options{}, "token"},
		{"endpoint only", Options{Endpoint: "h:1"}, "token"},
		{"both", Options{Endpoint: "h:1", Token: token, Pins: []Pin{{}}, File: "x"}, "discovery-file"},
		{"no endpoint", Options{Token: token, Pins: []Pin{{}}}, "endpoint"},
		{"no pin", Options{Endpoint: "h:1", Token: token}, "discovery-token-ca-cert-hash"},
		{"pin and unsafe", Options{Endpoint: "h:1", Token: token, Pins: []Pin{{}}, UnsafeSkipCAVerification: true}, "discovery-token-unsafe-skip-ca-verification"},
		{"file and endpoint", Options{File: "x", Endpoint: "h:1"}, "discovery-file"},
		{"file and pin", Options{File: "x", Pins: []Pin{{}}}, "discovery-file"},
		{"file and unsafe", Options{File: "x", UnsafeSkipCAVerification: true}, "discovery-file"},
		{"stream without one", Options{File: "-"}, "discovery-file"},
		{"http", Options{File: "http://h/x"}, "discovery-file"},
		{"ftp", Options{File: "ftp://h/x"}, "discovery-file"},
		{"password", Options{File: "https://u:hunter2@h/x"}, "discovery-file"},
		{"no host", Options{File: "https:///x"}, "discovery-file"},
		{"no URL", Options{File: "https://u:hunter2@h:x/%"}, "discovery-file"},
		{"negative", Options{File: "x", Limits: Limits{Timeout: -1}}, "timeout"},
		{"negative wait", Options{File: "x", SignatureWait: -1}, "timeout"},
	}
	for _, tt := range tests {
		err := tt.o.Validate()
		var input *InputError
		switch {
		case tt.field == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.field == "":
		case !errors.As(err, &input) || input.Field != tt.field:
			t.Errorf("%s: %v", tt.name, err)
		case strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), tokenSecret):
			t.Errorf("%s: a secret in %v", tt.name, err)
		}
	}
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1:6443":                          "https://10.0.0.1:6443",
		"[::1]:6443":                             "https://[::1]:6443",
		"127.0.0.1":                              "https://127.0.0.1:6443",
		"host":                                   "https://host:6443",
		"[::1]":                                  "https://[::1]:6443",
		"api.example:443":                        "https://api.example:443",
		"https://api.example":                    "https://api.example",
		"https://api.example:6443/":              "https://api.example:6443",
		"https://rancher.example/k8s/clusters/c": "https://rancher.example/k8s/clusters/c",
	} {
		if u, err := parseServer(text); err != nil || u.String() != want {
			t.Errorf("%q reads as %v, %v", text, u, err)
		}
	}
	for _, text := range []string{
		"", ":6443", "host:", "host:0", "host:65536", "host:x", "host:-1", "::1:6443", "::1", "host:1:2", "[", "[]", "[::1", "u@h", "h/x", "h?x", "h x",
		"http://host:1", "HTTP://host", "file:///etc/passwd", "https://", "https://:1", "https://u:p@h", "https://h:0", "https://h:99999",
		"https://h?x=y", "https://h?", "https://h#x", "u@h:1", "h/x:1", "h?x:1", "h#x:1", "h :1", "h\n:1", "https://h\x00", "https://%zz",
		"https://h/" + strings.Repeat("x", maxServer),
	} {
		if u, err := parseServer(text); err == nil {
			t.Errorf("%q reads as %s", text, u)
		}
	}
}

func TestPins(t *testing.T) {
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	got, err := PinsOf([]byte("text before\n" + a.pem() + b.pem()))
	if err != nil || !slices.Equal(got, []Pin{a.pin(), b.pin()}) {
		t.Fatalf("%v, %v", got, err)
	}
	text := a.pin().String()
	again, err := ParsePins([]string{text, strings.ToUpper(text)})
	if err != nil || again[0] != a.pin() || again[1] != a.pin() {
		t.Errorf("%v, %v", again, err)
	}
	asJSON, err := json.Marshal(got)
	must.OK(t, err)
	var back []Pin
	if err := json.Unmarshal(asJSON, &back); err != nil || !slices.Equal(back, got) {
		t.Errorf("%s: %v", asJSON, err)
	}
	digits := strings.TrimPrefix(text, "sha256:")
	for _, bad := range []string{"", "foo", digits, "sha256:", "sha256:" + digits[2:], "sha256:" + digits + "00",
		"sha512:" + digits,
		"sha256:" + "zz" + digits[2:], " " + text, text + "\n", "sha256:" + text} {
		var input *InputError
		if _, err := ParsePins([]string{text, bad}); !errors.As(err, &input) || input.Hint() == "" {
			t.Errorf("%q: %v", bad, err)
		}
		if err := json.Unmarshal([]byte(`["`+strings.TrimSpace(bad)+`x"]`), &back); err == nil {
			t.Errorf("%q is taken from JSON", bad)
		}
	}
	if _, err := PinsOf(nil); !errors.Is(err, ErrDocument) {
		t.Errorf("pins of nothing: %v", err)
	}
}

// TestPinOfOpenSSL: the hash was made as kubeadm's manual says, with
// openssl x509 -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256.
func TestPinOfOpenSSL(t *testing.T) {
	ca, err := os.ReadFile("testdata/ca.pem")
	must.OK(t, err)
	pins, err := PinsOf(ca)
	must.OK(t, err)
	if want := "sha256:09999a60ebefd897bba8210ca084d62b91a59604ace6a5e2b98ad89890e464e6"; len(pins) != 1 ||
		pins[0].String() != want {
		t.Errorf("pins %v", pins)
	}
}

// TestSignatureOfUpstream: what k8s.io/cluster-bootstrap v0.37.1 signed
// verifies, and only that.
func TestSignatureOfUpstream(t *testing.T) {
	text, err := os.ReadFile("testdata/cluster-bootstrap-jws.json")
	must.OK(t, err)
	var golden []struct{ Content, ID, Secret, JWS string }
	must.OK(t, json.Unmarshal(text, &golden))
	if len(golden) == 0 {
		t.Fatal("no golden signatures")
	}
	for _, g := range golden {
		if g.ID != tokenID || g.Secret != tokenSecret {
			t.Fatalf("another token: %+v", g)
		}
		if err := verifySignature(g.JWS, []byte(g.Content), testToken(t)); err != nil {
			t.Errorf("%q: %v", g.Content, err)
		}
		if err := verifySignature(g.JWS, []byte(g.Content+"\n"), testToken(t)); !errors.Is(err, ErrSignature) {
			t.Errorf("%q and more: %v", g.Content, err)
		}
		if got := sign(g.Content); got != g.JWS {
			t.Errorf("the tests sign otherwise: %s", got)
		}
	}
}

package wire

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with testdata/name, byte by byte.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		check(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", name, got, want)
	}
}

// kepConfig is the configuration of the KEP's examples.
var kepConfig = map[string]string{
	"pathExec": "/path/to/externalSigner", "pathLib": "/path/to/library.so", "slotId": "0", "objectId": "2", "pin": "123456",
}

// kepDigest is the digest of the KEP's example.
var kepDigest, _ = base64.StdEncoding.DecodeString("TqRUvJjLvlp3g9B3elpfzfgrSbukXBP5txkBLIkCSs4=")

var dialects = map[Dialect]string{KEP: "kep", Prototype: "prototype"}

var signatures = []struct {
	name   string
	digest []byte
	opts   crypto.SignerOpts
}{
	{"pss-equals-hash", kepDigest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}},
	{"pss-auto", bytes.Repeat([]byte{1}, 48), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto, Hash: crypto.SHA384}},
	{"pss-20", bytes.Repeat([]byte{2}, 64), &rsa.PSSOptions{SaltLength: 20, Hash: crypto.SHA512}},
	{"sha256", kepDigest, crypto.SHA256},
	{"sha384", bytes.Repeat([]byte{1}, 48), crypto.SHA384},
	{"sha512", bytes.Repeat([]byte{2}, 64), crypto.SHA512},
	{"message", []byte("TLS 1.3, client CertificateVerify"), crypto.Hash(0)},
}

// TestRequests: what the client's side writes is what the KEP and the
// prototype show, and is read back by the signer's side.
func TestRequests(t *testing.T) {
	slot, object := uint64(0), byte(2)
	for d, name := range dialects {
		b, err := NewRequest(d, kepConfig)
		check(t, err)
		golden(t, name+"-certificate-request.json", b)
		r, err := Parse(b)
		check(t, err)
		if pin := string(r.Config.PIN.Bytes()); pin != "123456" {
			t.Errorf("the PIN is %q", pin)
		}
		r.Config.PIN = nil
		want := Request{Dialect: d, Operation: Certificate,
			Config: Config{PathLib: "/path/to/library.so", SlotID: &slot, ObjectID: &object}}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("read %+v, want %+v", r, want)
		}
		for _, s := range signatures {
			b, err := NewSignRequest(d, kepConfig, s.digest, s.opts)
			check(t, err)
			golden(t, name+"-sign-request-"+s.name+".json", b)
			r, err := Parse(b)
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			if r.Dialect != d || r.Operation != Sign || !bytes.Equal(r.Digest, s.digest) || !reflect.DeepEqual(r.Opts, s.opts) {
				t.Errorf("%s: read %+v", s.name, r)
			}
		}
	}
}

// TestKEPExample: the KEP's own text, with its white space.
func TestKEPExample(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "kep-example-sign-request.json"))
	check(t, err)
	r, err := Parse(b)
	check(t, err)
	want := &rsa.PSSOptions{SaltLength: -1, Hash: crypto.SHA256}
	if !reflect.DeepEqual(r.Opts, want) || !bytes.Equal(r.Digest, kepDigest) || *r.Config.ObjectID != 2 {
		t.Errorf("read %+v", r)
	}
	if len(bytes.Trim(b, "\x00")) != 0 {
		t.Error("the request, which may hold a PIN, was not overwritten")
	}
}

func testCertificate(t *testing.T) *x509.Certificate {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<31, 0)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	return cert
}

func TestAnswers(t *testing.T) {
	cert := testCertificate(t)
	for d, name := range dialects {
		b := CertificateAnswer(d, cert.Raw)
		golden(t, name+"-certificate-answer.json", b)
		if got, err := ParseCertificateAnswer(b); err != nil || len(got) != 1 || !got[0].Equal(cert) {
			t.Errorf("%s: %v", name, err)
		}
		chained := CertificateAnswer(d, cert.Raw, cert.Raw, cert.Raw)
		golden(t, name+"-certificate-chain-answer.json", chained)
		if got, err := ParseCertificateAnswer(chained); err != nil || len(got) != 3 || !got[2].Equal(cert) {
			t.Errorf("%s with a chain: %d certificates, %v", name, len(got), err)
		}
		plain := struct{ Certificate []byte }{} // A client as the KEP has it.
		if err := json.Unmarshal(chained, &plain); err != nil || !bytes.Equal(plain.Certificate, cert.Raw) {
			t.Errorf("%s, by a client that knows no chain: %v", name, err)
		}
		if _, err := ParseSignAnswer(b); !errors.Is(err, ErrAnswer) {
			t.Errorf("a certificate read as a signature: %v", err)
		}
		signature := []byte{0, 1, 2, 0xfb, 0xff, 0xfe}
		b = SignAnswer(d, signature)
		golden(t, name+"-sign-answer.json", b)
		if got, err := ParseSignAnswer(b); err != nil || !bytes.Equal(got, signature) {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}

func TestBadAnswers(t *testing.T) {
	for _, b := range []string{
		"", "{}", "PIN: {}", `{"apiVersion":"x","kind":"SignResponse","signature":"AA=="}`,
		`{"apiVersion":"` + APIVersion + `","kind":"SignResponse"}`,
		`{"apiVersion":"` + APIVersion + `","kind":"SignResponse","signature":""}`,
		`{"apiVersion":"` + APIVersion + `","kind":"SignResponse","signature":"*"}`,
		`{"apiVersion":"` + APIVersion + `","kind":"CertificateResponse","certificate":"AAAA"}`,
		string(CertificateAnswer(KEP, testCertificate(t).Raw, []byte("no certificate"))),
		string(CertificateAnswer(KEP, testCertificate(t).Raw, make([][]byte, maxChain+1)...)),
		strings.Repeat(" ", MaxAnswer+1),
	} {
		if _, err := ParseSignAnswer([]byte(b)); !errors.Is(err, ErrAnswer) {
			t.Errorf("signature in %.60q: %v", b, err)
		}
		if _, err := ParseCertificateAnswer([]byte(b)); !errors.Is(err, ErrAnswer) {
			t.Errorf("certificate in %.60q: %v", b, err)
		}
	}
}

// TestSpellings: every spelling of the configuration's keys.
func TestSpellings(t *testing.T) {
	for _, config := range []string{
		`{"pathLib":"/l","slotId":"7","objectId":"255","pathExec":"/e"}`,
		`{"pathLib":"/l","slot-id":"7","object-id":"255","pathExec":"/e"}`,
		`{"path-lib":"/l","slot_id":"7","objectID":"255"}`,
		`{"PATHLIB":"/l","slotId":"7","slot-id":"7","objectId":"255"}`,
	} {
		r, err := Parse(certificateRequest(config))
		if err != nil {
			t.Errorf("%s: %v", config, err)
		} else if r.Config.PathLib != "/l" || *r.Config.SlotID != 7 || *r.Config.ObjectID != 255 || r.Config.Unknown != nil {
			t.Errorf("%s: %+v", config, r.Config)
		}
	}
	r, err := Parse(certificateRequest(`{"uri":"pkcs11:token=a;id=%02","slotId":"no number","zone":"z","colour":"c"}`))
	check(t, err)
	want := Config{URI: &hsm.URI{Scheme: "pkcs11", Token: "a", ID: []byte{2}}, Unknown: []string{"colour", "zone"}}
	if !reflect.DeepEqual(r.Config, want) {
		t.Errorf("got %+v, want %+v", r.Config, want)
	}
}

func certificateRequest(config string) []byte {
	return []byte(`{"apiVersion":"` + APIVersion + `","kind":"CertificateRequest","configuration":` + config + `}`)
}

func signRequest(digest, kind, opts string) []byte {
	return []byte(`{"apiVersion":"` + APIVersion + `","kind":"SignRequest","digest":"` + digest +
		`","configuration":{"uri":"pkcs11:token=a"},"signerOptsType":"` + kind + `","signerOpts":` + opts + `}`)
}

// TestBadRequests: what is refused, and in what words.
func TestBadRequests(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	d32, d31 := b64(make([]byte, 32)), b64(make([]byte, 31))
	good := `{"uri":"pkcs11:token=a"}`
	version := `{"apiVersion":"` + APIVersion + `",`
	for _, c := range []struct {
		request []byte
		says    string
	}{
		{[]byte(``), "it is empty"},
		{[]byte(`null`), "not a JSON object"},
		{[]byte(`[]`), "not a JSON object"},
		{[]byte(`{"apiVersion":`), "unexpected EOF"},
		{[]byte(`{"apiVersion":"x"`), "unexpected EOF"},
		{[]byte(`{}`), "no apiVersion"},
		{[]byte(`{"apiVersion":"external-signer.authentication.k8s.io/v1","kind":"SignRequest"}`), "apiVersion is"},
		{[]byte(version + `"kind":"CertificateRequest"}`), "no configuration"},
		{[]byte(version + `"configuration":` + good + `}`), "no kind"},
		{[]byte(version + `"kind":"certificaterequest","configuration":` + good + `}`), "unknown kind"},
		{[]byte(version + `"kind":"SignResponse","configuration":` + good + `}`), "unknown kind"},
		{[]byte(version + `"Kind":"CertificateRequest","configuration":` + good + `}`), `unknown field "Kind"`},
		{[]byte(version + `"kind":"CertificateRequest","configuration":` + good + `,"cluster":{}}`), `unknown field "cluster"`},
		{[]byte(version + `"kind":"CertificateRequest","kind":"SignRequest","configuration":` + good + `}`), `duplicate field "kind"`},
		{[]byte(version + `"kind":"CertificateRequest","configuration":` + good + `,"digest":"AA=="}`), "has no digest"},
		{[]byte(version + `"kind":"Sign","configuration":` + good + `}`), "digest is missing"},
		{append(certificateRequest(good), "{}"...), "something after"},
		{certificateRequest(`[]`), `"configuration"`},
		{certificateRequest(`{}`), "names no key"},
		{certificateRequest(`{"uri":null}`), "not a string"},
		{certificateRequest(`{"slotId":0}`), "wrong type"},
		{certificateRequest(`{"uri":"pkcs11:token=a","uri":"pkcs11:token=b"}`), "duplicate field"},
		{certificateRequest(`{"uri":"pkcs11:token=a","URI":"pkcs11:token=b"}`), "uri twice"},
		{certificateRequest(`{"uri":"http://x"}`), "unknown scheme"},
		{certificateRequest(`{"uri":"pkcs11:token=a?pin-value=1"}`), "pin-value"},
		{certificateRequest(`{"pathLib":"l.so","slotId":"0","objectId":"2"}`), "not an absolute path"},
		{certificateRequest(`{"slotId":"0","objectId":"2"}`), "names no key"},
		{certificateRequest(`{"pathLib":"/l","objectId":"2"}`), "names no key"},
		{certificateRequest(`{"pathLib":"/l","slotId":"-1","objectId":"2"}`), "slotId"},
		{certificateRequest(`{"pathLib":"/l","slotId":"0","objectId":"256"}`), "objectId"},
		{certificateRequest(`{"pathLib":"/l","slotId":"0","objectId":"0x02"}`), "objectId"},
		{signRequest(d31, "crypto.Hash", `"5"`), "31 bytes is no SHA-256"},
		{signRequest(d32, "crypto.Hash", `"6"`), "32 bytes is no SHA-384"},
		{signRequest("", "crypto.Hash", `"5"`), "0 bytes"},
		{signRequest(d32+"A", "crypto.Hash", `"5"`), "not base64"},
		{signRequest(d32[:20]+`\n`+d32[20:], "crypto.Hash", `"5"`), "not base64"},
		{signRequest("====", "crypto.Hash", `"0"`), "not base64"},
		{signRequest("", "crypto.Hash", `"0"`), "0 bytes"},
		{signRequest(b64(make([]byte, MaxMessage+1)), "crypto.Hash", `"0"`), "65537 bytes"},
		{signRequest(b64(make([]byte, 20)), "crypto.Hash", `"3"`), "hash number 3"},
		{signRequest(d32, "crypto.Hash", `"99"`), "hash number 99"},
		{signRequest(d32, "crypto.Hash", `"05"`), "not the number"},
		{signRequest(d32, "crypto.Hash", `"-5"`), "not the number"},
		{signRequest(d32, "crypto.Hash", `"SHA-256"`), "not the number"},
		{signRequest(d32, "crypto.Hash", `5`), "wrong type"},
		{signRequest(d32, "crypto.Hash", `null`), "signerOpts is missing"},
		{signRequest(d32, "*rsa.OAEPOptions", `"{}"`), "unknown signerOptsType"},
		{signRequest(d32, "", `"5"`), "unknown signerOptsType"},
		{signRequest(d32, "*rsa.PSSOptions", `"5"`), "not a JSON object"},
		{signRequest(d32, "*rsa.PSSOptions", `""`), "it is empty"},
		{signRequest(d32, "*rsa.PSSOptions", `"{\"Hash\":5}"`), "SaltLength and Hash"},
		{signRequest(d32, "*rsa.PSSOptions", `"{\"SaltLength\":-1}"`), "SaltLength and Hash"},
		{signRequest(d32, "*rsa.PSSOptions", `"{\"SaltLength\":-2,\"Hash\":5}"`), "salt of -2"},
		{signRequest(d32, "*rsa.PSSOptions", `"{\"SaltLength\":4096,\"Hash\":5}"`), "salt of 4096"},
		{signRequest(d32, "*rsa.PSSOptions", `"{\"SaltLength\":-1,\"Hash\":0}"`), "needs a hash"},
		{signRequest(d32, "*rsa.PSSOptions", `"{\"SaltLength\":-1,\"Hash\":5,\"Salt\":1}"`), `unknown field "Salt"`},
		{certificateRequest(`{"uri":"pkcs11:token=` + strings.Repeat("a", MaxRequest) + `"}`), "at most"},
	} {
		quoted := string(c.request)
		_, err := Parse(c.request)
		if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.200s\n  got error %v, want one with %q", quoted, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%.200s\n  the error has several lines: %q", quoted, err)
		}
	}
}

// TestErrorsKeepThePIN: no error quotes it.
func TestErrorsKeepThePIN(t *testing.T) {
	const pin = "7391640258"
	for _, config := range []string{
		`{"pin":"` + pin + `"}`, `{"pin":"` + pin + `","PIN":"x"}`, `{"pin":` + pin + `}`, `{"pin":"` + pin + `","uri":"` + `x"}`,
		`{"pin":"` + pin + `\q"}`,
	} {
		_, err := Parse(certificateRequest(config))
		if err == nil || strings.Contains(err.Error(), pin) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

func TestWhereRequestsAre(t *testing.T) {
	request := string(certificateRequest(`{"uri":"pkcs11:token=a"}`))
	other := string(certificateRequest(`{"uri":"pkcs11:token=b"}`))
	for _, c := range []struct {
		name      string
		args      []string
		env       map[string]string
		requested bool
		token     string
	}{
		{"the usual variable", nil, map[string]string{"EXTERNAL_SIGNER_PLUGIN_CONFIG": request}, true, "a"},
		{"the older variable", nil, map[string]string{"EXTERNAL_SIGNER_PKCS11_PLUGIN_CONFIG": request}, true, "a"},
		{"both, equal", nil, map[string]string{"EXTERNAL_SIGNER_PLUGIN_CONFIG": request, "EXTERNAL_SIGNER_PKCS11_PLUGIN_CONFIG": request}, true, "a"},
		{"both, different", nil, map[string]string{"EXTERNAL_SIGNER_PLUGIN_CONFIG": request, "EXTERNAL_SIGNER_PKCS11_PLUGIN_CONFIG": other}, true, ""},
		{"an argument", []string{" \n" + request}, nil, true, "a"},
		{"an argument goes first", []string{other}, map[string]string{"EXTERNAL_SIGNER_PLUGIN_CONFIG": request}, true, "b"},
		{"a command", []string{"token"}, map[string]string{"EXTERNAL_SIGNER_PLUGIN_CONFIG": request}, false, ""},
		{"a command of two words", []string{"token", "list"}, map[string]string{"EXTERNAL_SIGNER_PLUGIN_CONFIG": request}, false, ""},
		{"nothing", nil, nil, false, ""},
	} {
		getenv := func(name string) string { return c.env[name] }
		if got := Requested(c.args, getenv); got != c.requested {
			t.Errorf("%s: requested is %t", c.name, got)
		}
		r, err := Read(c.args, getenv)
		switch {
		case c.token != "" && (err != nil || r.Config.URI.Token != c.token):
			t.Errorf("%s: %+v, %v", c.name, r, err)
		case c.token == "" && c.requested && !errors.Is(err, ErrRequest):
			t.Errorf("%s: %v", c.name, err)
		case !c.requested && !errors.Is(err, ErrNoRequest):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzParse: no input makes a request that is not sound.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	check(f, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		check(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrRequest) || !reflect.DeepEqual(r, Request{}) {
				t.Fatalf("%+v, %v", r, err)
			}
			return
		}
		defer r.Zero()
		c := r.Config
		if c.URI == nil && (c.PathLib == "" || c.SlotID == nil || c.ObjectID == nil) {
			t.Fatalf("no key is named: %+v", c)
		}
		if (r.Operation == Sign) != (r.Opts != nil) || (r.Operation == Sign) != (r.Digest != nil) {
			t.Fatalf("half a request: %+v", r)
		}
		if r.Operation != Sign {
			return
		}
		if h := r.Opts.HashFunc(); h != 0 && len(r.Digest) != h.Size() || h == 0 && len(r.Digest) > MaxMessage {
			t.Fatalf("%d bytes for hash %d", len(r.Digest), h)
		}
		again, err := NewSignRequest(r.Dialect, map[string]string{"uri": "piv:slot=9a"}, r.Digest, r.Opts)
		check(t, err)
		if back, err := Parse(again); err != nil || !bytes.Equal(back.Digest, r.Digest) ||
			!reflect.DeepEqual(back.Opts, r.Opts) {
			t.Fatalf("%+v came back as %+v, %v", r, back, err)
		}
	})
}

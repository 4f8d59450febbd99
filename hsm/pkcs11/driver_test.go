//go:build cgo

package pkcs11

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11/p11kit"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestBadModules: modules that are missing, no library, or no PKCS#11 are
// problems that hide nothing.
func TestBadModules(t *testing.T) {
	good, soft := softHSM(t)
	text := filepath.Join(t.TempDir(), "text.so")
	must.OK(t, os.WriteFile(text, []byte("not a library"), 0o600))
	libc := ""
	for _, p := range []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"} {
		if _, err := os.Stat(p); err == nil {
			libc = p
		}
	}
	bad := []string{"/nonexistent/module.so", text}
	if libc != "" {
		bad = append(bad, libc)
	}
	o := Options{LockDir: good.options.LockDir}
	for _, path := range bad {
		o.Modules = append(o.Modules, Module{Path: path})
	}
	o.Modules = append(o.Modules, Module{Path: soft.Module, Env: soft.Env()})
	d := New(o)
	defer d.Close()
	l, err := d.List(t.Context())
	must.OK(t, err)
	if len(l.Problems) != len(bad) {
		t.Errorf("problems %v, want one for each of %q", l.Problems, bad)
	}
	for i, p := range l.Problems {
		if p.Source != bad[i] || !errors.Is(p.Err, hsm.ErrModule) || !strings.Contains(p.Err.Error(), bad[i]) {
			t.Errorf("problem %d: %s: %v", i, p.Source, p.Err)
		}
	}
	tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: testLabel})
	must.OK(t, err)
	if err := tok.Close(); err != nil {
		t.Error(err)
	}
	// With nothing but failures, the error says why nothing was found.
	broken := New(Options{Modules: o.Modules[:1]})
	defer broken.Close()
	_, err = broken.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: testLabel})
	if !errors.Is(err, hsm.ErrNoToken) || !errors.Is(err, hsm.ErrModule) || hinting.Of(err) == "" {
		t.Errorf("error %v, hint %q", err, hinting.Of(err))
	}
}

// TestModulePathLoadsNothingElse: the credential path opens exactly one library.
func TestModulePathLoadsNothingElse(t *testing.T) {
	first, soft := softHSM(t)
	u := tokenURI(t, first, testLabel)
	d := New(Options{Discover: true, Modules: []Module{{Path: "/nonexistent/a.so"}}})
	defer d.Close()
	u.ModulePath = p11kit.Real(soft.Module) // another path to the same file
	tok, err := d.Open(t.Context(), u)
	must.OK(t, err)
	defer tok.Close()
	if len(d.modules) != 1 {
		t.Errorf("%d modules loaded", len(d.modules))
	}
	u.ModulePath = "/nonexistent/b.so"
	if _, err := d.Open(t.Context(), u); !errors.Is(err, hsm.ErrNoToken) || !errors.Is(err, hsm.ErrModule) {
		t.Errorf("a missing module: %v", err)
	}
}

// TestSameModuleOnce: two paths to one file are one module.
func TestSameModuleOnce(t *testing.T) {
	_, soft := softHSM(t)
	link := filepath.Join(t.TempDir(), "link.so")
	must.OK(t, os.Symlink(soft.Module, link))
	d := New(Options{Modules: []Module{{Path: soft.Module}, {Path: link}}, Discover: true})
	defer d.Close()
	l, err := d.List(t.Context())
	must.OK(t, err)
	n := 0
	for _, info := range l.Tokens {
		if info.Label == testLabel {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the token is listed %d times", n)
	}
}

// TestOpenNames: by label, ambiguous labels, uninitialized tokens, labels that
// changed.
func TestOpenNames(t *testing.T) {
	d, soft := softHSM(t)
	must.OK(t, soft.Add(hsmtest.SoftToken{Label: "twin"}, hsmtest.SoftToken{Label: "twin"}))
	_, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "twin"})
	if !errors.Is(err, hsm.ErrSeveralTokens) || strings.Count(hinting.Of(err), "serial=") != 2 {
		t.Errorf("twins: %v, hint %q", err, hinting.Of(err))
	}
	l, err := d.List(t.Context())
	must.OK(t, err)
	blank := false
	for _, info := range l.Tokens {
		blank = blank || !info.Initialized
	}
	if !blank {
		t.Fatal("SoftHSM always has one uninitialized token")
	}
	u := hsm.URI{Scheme: hsm.SchemePKCS11, Manufacturer: "SoftHSM project"}
	only := matching(l.Tokens, u)
	if len(only) != len(l.Tokens) {
		t.Errorf("%d of %d tokens are SoftHSM's", len(only), len(l.Tokens))
	}
	full := tokenURI(t, d, testLabel)
	full.Token = "an older label"
	tok, err := d.Open(t.Context(), full)
	if err != nil {
		t.Fatalf("by serial, model and manufacturer: %v", err)
	}
	defer tok.Close()
	full.Model = ""
	if _, err := d.Open(t.Context(), full); !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("another label without a full identity: %v", err)
	}
}

// TestPartialObjects: public key objects, certificates and labels come and go.
func TestPartialObjects(t *testing.T) {
	d, soft := softHSM(t)
	tok := openToken(t, d)
	p := hsmtest.Typing(t, testPIN)
	for _, a := range []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048} {
		slot := generateKey(t, tok, hsm.GenerateOptions{Label: string(a), Algorithm: a})
		s, err := tok.Signer(t.Context(), slot.URI, nil, p)
		must.OK(t, err)
		cert, err := hsmtest.Certify(s, "partial")
		must.OK(t, err)
		must.OK(t, tok.StoreCertificate(t.Context(), slot.URI, cert, p))
		destroyPublic(t, spyOn(t, soft, testLabel), slot.URI.ID)

		got, err := tok.Slot(t.Context(), slot.URI)
		if err != nil || got.Key == nil || !hsm.SameKey(got.Key.Public, slot.Key.Public) {
			t.Fatalf("%s without a public key object: %+v, %v", a, got, err)
		}
		must.OK(t, tok.Lock())
		got, err = tok.Slot(t.Context(), slot.URI)
		if err != nil || got.Key == nil || !hsm.SameKey(got.Key.Public, slot.Key.Public) || !sameCert(got.Certificate, cert) {
			t.Fatalf("%s locked, by its certificate: %+v, %v", a, got, err)
		}
		renamed := slot.URI
		renamed.Object = "another label"
		s, err = tok.Signer(t.Context(), renamed, slot.Key.Public, p)
		if err != nil {
			t.Fatalf("%s by id: %v", a, err)
		}
		mustSign(t, s)
	}
}

// TestSeveralKeys: the hint names one by what tells it from the others.
func TestSeveralKeys(t *testing.T) {
	d, soft := softHSM(t)
	tok := openToken(t, d)
	one, two := generateKey(t, tok, hsm.GenerateOptions{Label: "one"}), generateKey(t, tok,
		hsm.GenerateOptions{Label: "two"})
	s := spyOn(t, soft, testLabel)
	// name gives the second key's objects a label and an id.
	name := func(label string, id []byte) {
		t.Helper()
		r := s.reader()
		for _, o := range r.find(p11.NewAttribute(p11.CKA_LABEL, two.Label), p11.NewAttribute(p11.CKA_ID, two.URI.ID)) {
			if err := s.SetAttributeValue(s.sh, o, []*p11.Attribute{p11.NewAttribute(p11.CKA_LABEL, label),
				p11.NewAttribute(p11.CKA_ID, id)}); err != nil {
				t.Fatal(err)
			}
		}
		if r.err != nil {
			t.Fatal(r.err)
		}
		two.Label, two.URI.ID = label, id
	}
	fails := func(u hsm.URI, want string, named bool) {
		t.Helper()
		_, err := tok.Slot(t.Context(), u)
		hint := hinting.Of(err)
		if !errors.Is(err, hsm.ErrSeveralKeys) || !strings.Contains(err.Error(), u.String()) ||
			!strings.HasPrefix(hint, want) {
			t.Fatalf("%v, hint %q, want %q", err, hint, want)
		}
		_, uri, ok := strings.Cut(hint, ", as ")
		if ok != named {
			t.Fatalf("hint %q", hint)
		}
		if !named {
			return
		}
		quoted := uri
		uri = strings.Trim(quoted, "'")
		u, err = hsm.ParseURI(uri)
		if err != nil || quoted != "'"+uri+"'" {
			t.Fatalf("hint %q, %v", hint, err)
		}
		if slot, err := tok.Slot(t.Context(), u); err != nil || slot.URI.Identity().String() != uri {
			t.Errorf("%s is %s, %v", uri, slot.URI, err)
		}
	}
	byID, byLabel, another := one.URI, one.URI, one.URI
	byID.Object, byLabel.ID, another.Object = "", nil, "three"
	fails(one.URI.TokenOnly(), "name one by its label or id, as ", true)
	name("one", two.URI.ID)
	fails(byLabel, "name one by its id, as ", true)
	name("two", one.URI.ID)
	fails(byID, "they share an id: name one by its label too, as ", true)
	fails(another, "they share an id: name one by its label too, as ", true)
	name("one", one.URI.ID)
	for _, u := range []hsm.URI{byID, byLabel, one.URI} {
		fails(u, "label and id do not tell them apart: rename or delete one", false)
	}
	three := generateKey(t, tok, hsm.GenerateOptions{Label: "three"})
	two.Label, two.URI.ID = three.Label, three.URI.ID
	name("three", one.URI.ID) // label and id together name a key
	fails(byID, "they share an id: name one by its label too, as ", true)
	fails(byLabel, "label and id do not tell them apart: rename or delete one", false)
}

func sameCert(a, b *x509.Certificate) bool { return a != nil && b != nil && a.Equal(b) }

func destroyPublic(t *testing.T, s spy, id []byte) {
	t.Helper()
	r := s.reader()
	for _, o := range r.find(p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PUBLIC_KEY), p11.NewAttribute(p11.CKA_ID, id)) {
		must.OK(t, s.DestroyObject(s.sh, o))
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
}

// TestHiddenKey: where nothing is visible before login, the signer asks.
func TestHiddenKey(t *testing.T) {
	d, soft := softHSM(t)
	tok := openToken(t, d)
	slot := generateKey(t, tok, hsm.GenerateOptions{Label: "hidden"})
	spyOnly := spyOn(t, soft, testLabel)
	destroyPublic(t, spyOnly, slot.URI.ID)
	must.OK(t, tok.Lock())
	if slots, err := tok.Slots(t.Context(), nil); err != nil || len(slots) != 0 {
		t.Fatalf("%d slots without a PIN, %v", len(slots), err)
	}
	_, err := tok.Slot(t.Context(), slot.URI)
	if !errors.Is(err, hsm.ErrNoKey) || !strings.Contains(hinting.Of(err), "locked") {
		t.Errorf("error %v, hint %q", err, hinting.Of(err))
	}
	p := hsmtest.NewScript(t, hsmtest.PIN(testPIN))
	// SoftHSM's private EC objects carry no point, so the key cannot be known
	// without its public object: said, not guessed.
	_, err = tok.Signer(t.Context(), slot.URI, nil, p)
	if !errors.Is(err, hsm.ErrNoKey) || !strings.Contains(err.Error(), "public key") {
		t.Errorf("error %v", err)
	}
}

// TestEnv: what a module needs is in the environment when it is loaded.
func TestEnv(t *testing.T) {
	_, soft := softHSM(t)
	t.Setenv("SOFTHSM2_CONF", "/nonexistent")
	d := New(Options{Modules: []Module{{Path: soft.Module, Env: soft.Env()}}})
	defer d.Close()
	tokenURI(t, d, testLabel)
	if got := os.Getenv("SOFTHSM2_CONF"); got != soft.Conf {
		t.Errorf("SOFTHSM2_CONF=%q", got)
	}
}

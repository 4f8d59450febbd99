//go:build cgo

package externalsigner

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

const testPIN = "73916402"

// bench is a SoftHSM token with keys, and what Serve needs to use it.
type bench struct {
	t        *testing.T
	soft     *hsmtest.SoftHSM
	state    string
	warnings []string
	loaded   []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{t: t, state: t.TempDir(), soft: hsmtest.StartSoftHSM(t,
		hsmtest.SoftToken{Label: "signer", PIN: testPIN})}
}

func (b *bench) drivers(module string) hsm.Drivers {
	b.loaded = append(b.loaded, module)
	modules := []pkcs11.Module{{Path: b.soft.Module, Env: b.soft.Env()}}
	if module != "" {
		modules = append(modules, pkcs11.Module{Path: module})
	}
	return hsm.Drivers{pkcs11.New(pkcs11.Options{Modules: modules, LockDir: filepath.Join(b.state, "locks")})}
}

func (b *bench) options(p hsm.Prompter) Options {
	return Options{
		Drivers: b.drivers, Prompter: p,
		Modules: Modules{State: b.state, Known: func(path string) bool { return path == realPath(b.soft.Module) }},
		Warn:    func(m string) { b.warnings = append(b.warnings, m) },
	}
}

// key generates a key with a certificate.
func (b *bench) key(a hsm.Algorithm, label string) hsm.Slot {
	b.t.Helper()
	drivers := b.drivers("")
	defer drivers.Close()
	p := hsmtest.Typing(b.t, testPIN)
	tok, err := drivers.Open(b.t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "signer"})
	check(b.t, err)
	defer tok.Close()
	slot, err := tok.Generate(b.t.Context(), hsm.GenerateOptions{Label: label, Algorithm: a}, p)
	check(b.t, err)
	b.certify(tok, slot, slot.Key.Public, p)
	if slot, err = tok.Slot(b.t.Context(), slot.URI); err != nil {
		b.t.Fatal(err)
	}
	return slot
}

// certify stores a certificate for public, signed by the key in the slot.
func (b *bench) certify(tok hsm.Token, slot hsm.Slot, public crypto.PublicKey, p hsm.Prompter) {
	b.t.Helper()
	signer, err := tok.Signer(b.t.Context(), slot.URI, nil, p)
	check(b.t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, signer)
	check(b.t, err)
	cert, err := x509.ParseCertificate(der)
	check(b.t, err)
	check(b.t, tok.StoreCertificate(b.t.Context(), slot.URI, cert, p))
}

func (b *bench) serve(r []byte, p hsm.Prompter) ([]byte, error) {
	b.t.Helper()
	b.warnings = nil
	request, err := wire.Parse(r)
	check(b.t, err)
	return Serve(b.t.Context(), request, b.options(p))
}

func (b *bench) certificateRequest(config map[string]string) []byte {
	r, err := wire.NewRequest(wire.KEP, config)
	check(b.t, err)
	return r
}

func (b *bench) signRequest(config map[string]string, digest []byte, opts crypto.SignerOpts) []byte {
	r, err := wire.NewSignRequest(wire.Prototype, config, digest, opts)
	check(b.t, err)
	return r
}

// signs checks that the token's signature over digest is good.
func (b *bench) signs(config map[string]string, public crypto.PublicKey, digest []byte, opts crypto.SignerOpts) {
	b.t.Helper()
	answer, err := b.serve(b.signRequest(config, digest, opts), hsmtest.NewScript(b.t, hsmtest.PIN(testPIN)))
	if err != nil {
		b.t.Errorf("%T %v: %v", opts, opts, err)
		return
	}
	if !bytes.HasPrefix(answer, []byte(`{"apiVersion":"`+wire.APIVersion+`","kind":"ExternalSigner","signature":"`)) {
		b.t.Errorf("answer %s", answer)
	}
	sig, err := wire.ParseSignAnswer(answer)
	check(b.t, err)
	if err := verify(public, digest, sig, opts); err != nil {
		b.t.Errorf("%T %v: %v", opts, opts, err)
	}
}

func uriConfig(u hsm.URI) map[string]string { return map[string]string{"uri": u.String()} }

func TestSignEverything(t *testing.T) {
	b := newBench(t)
	message := bytes.Repeat([]byte("client CertificateVerify "), 40)
	for _, a := range []hsm.Algorithm{hsm.RSA2048, hsm.ECDSAP256, hsm.ECDSAP384, hsm.Ed25519} {
		slot := b.key(a, string(a))
		config := uriConfig(slot.URI)

		answer, err := b.serve(b.certificateRequest(config), hsmtest.NewScript(t)) // asks nobody
		check(t, err)
		chain, err := wire.ParseCertificateAnswer(answer)
		if err != nil || !hsm.SameKey(chain[0].PublicKey, slot.Key.Public) {
			t.Fatalf("%s: certificate %v", a, err)
		}
		for _, c := range optionsOf(a) {
			digest := message
			if h := c.HashFunc(); h != 0 {
				w := h.New()
				w.Write(message)
				digest = w.Sum(nil)
			}
			b.signs(config, slot.Key.Public, digest, c)
		}
		for _, c := range optionsNotOf(a) {
			digest := message
			if h := c.HashFunc(); h != 0 {
				digest = make([]byte, h.Size())
			}
			_, err := b.serve(b.signRequest(config, digest, c), hsmtest.NewScript(t))
			if !errors.Is(err, ErrRequest) {
				t.Errorf("%s signed with %T %v: %v", a, c, c, err)
			}
		}
	}
}

// TestSlotNumbers: as CK_SLOT_ID and as index, with a warning that names the key.
func TestSlotNumbers(t *testing.T) {
	b := newBench(t)
	check(t, b.soft.Add(hsmtest.SoftToken{Label: "other"}))
	slot := b.key(hsm.ECDSAP256, "k")
	one := slot.URI
	drivers := b.drivers("")
	listing, err := drivers.List(t.Context())
	check(t, errors.Join(err, drivers.Close()))
	var index int
	var id uint64
	for i, token := range listing.Tokens {
		if token.Label == "signer" {
			index, id = i, token.SlotID
		}
	}
	object := setID(t, b.soft, slot, []byte{200})
	for _, n := range []string{strconv.Itoa(index), strconv.FormatUint(id, 10)} {
		config := map[string]string{"pathLib": b.soft.Module, "slotId": n, "objectId": object}
		b.signs(config, slot.Key.Public, make([]byte, 32), crypto.SHA256)
		one.ID = []byte{200}
		if len(b.warnings) != 1 || !strings.Contains(b.warnings[0], one.String()) {
			t.Errorf("slot %s: warnings %q, want one with %s", n, b.warnings, one)
		}
	}
	for _, n := range []string{"99", strconv.Itoa(len(listing.Tokens) - 1)} { // the last is not initialized
		_, err := b.serve(b.certificateRequest(map[string]string{"pathLib": b.soft.Module, "slotId": n, "objectId": object}),
			hsmtest.NewScript(t))
		if !errors.Is(err, hsm.ErrNoToken) || !strings.Contains(hinting.Of(err), "token=signer") {
			t.Errorf("slot %s: %v, hint %q", n, err, hinting.Of(err))
		}
	}
}

// TestObjectOfLongID: a one-byte objectId cannot name a key whose id is longer; the
// error says what can.
func TestObjectOfLongID(t *testing.T) {
	b := newBench(t)
	slot := b.key(hsm.ECDSAP256, "k")
	for i := range maxNamed {
		b.key(hsm.ECDSAP256, fmt.Sprintf("further %d", i))
	}
	config := map[string]string{"pathLib": b.soft.Module, "slotId": "0", "objectId": "2"}
	_, err := b.serve(b.certificateRequest(config), hsmtest.TypingAll(t, map[hsm.PINKind]string{hsm.UserPIN: testPIN}))
	said := hinting.Of(err)
	if !errors.Is(err, hsm.ErrNoKey) || strings.Count(said, "'pkcs11:") != maxNamed || !strings.Contains(said, "1 more") {
		t.Errorf("%v, hint %q", err, said)
	}
	_, named, _ := strings.Cut(said, "'pkcs11:")
	named, _, _ = strings.Cut(named, "'")
	if u, err := hsm.ParseURI("pkcs11:" + named); err != nil || len(u.ID) < 2 || u.Token != "signer" {
		t.Errorf("the uri %q: %v", named, err)
	}
	// What other tools show of the id.
	config["objectId"] = "0x" + hex.EncodeToString(slot.URI.ID)
	_, err = wire.Parse(b.certificateRequest(config))
	if u := hsm.ModuleObject(slot.URI.ID).String(); !strings.Contains(hinting.Of(err), "'"+u+"'") {
		t.Errorf("%v, hint %q, want %s", err, hinting.Of(err), u)
	}
}

func TestNoUsableKey(t *testing.T) {
	b := newBench(t)
	slot := b.key(hsm.ECDSAP256, "k")
	serve := func(u hsm.URI) error {
		_, err := b.serve(b.certificateRequest(uriConfig(u)),
			hsmtest.TypingAll(t, map[hsm.PINKind]string{hsm.UserPIN: testPIN}))
		return err
	}
	missing := slot.URI
	missing.Object, missing.ID = "", []byte{9}
	if err := serve(missing); !errors.Is(err, hsm.ErrNoKey) || hinting.Of(err) == "" {
		t.Errorf("no such key: %v", err)
	}
	elsewhere := slot.URI
	elsewhere.Serial = "0"
	if err := serve(elsewhere); !errors.Is(err, hsm.ErrNoToken) {
		t.Errorf("no such token: %v", err)
	}
	twin := b.key(hsm.ECDSAP256, "twin")
	setID(t, b.soft, twin, slot.URI.ID)
	both := slot.URI
	both.Object = ""
	if err := serve(both); !errors.Is(err, hsm.ErrSeveralKeys) {
		t.Errorf("two objects with one id: %v", err)
	}
	for _, each := range []hsm.Slot{slot, twin} { // the label tells them apart
		u := slot.URI
		u.Object = each.Label
		digest := bytes.Repeat([]byte{7}, 32)
		b.signs(uriConfig(u), each.Key.Public, digest, crypto.SHA256)
		answer, err := b.serve(b.certificateRequest(uriConfig(u)),
			hsmtest.TypingAll(t, map[hsm.PINKind]string{hsm.UserPIN: testPIN}))
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		chain, err := wire.ParseCertificateAnswer(answer)
		if err != nil || !hsm.SameKey(chain[0].PublicKey, each.Key.Public) {
			t.Errorf("%s: the certificate of another key, %v", u, err)
		}
	}
	bare := b.key(hsm.ECDSAP256, "bare")
	deleteCertificates(t, b.soft, bare.URI.ID)
	if err := serve(bare.URI); !errors.Is(err, hsm.ErrNoCertificate) {
		t.Errorf("no certificate: %v", err)
	}
	foreign := b.key(hsm.ECDSAP384, "foreign")
	deleteCertificates(t, b.soft, bare.URI.ID)
	moveCertificate(t, b.soft, foreign.Certificate.Raw, foreign.URI.ID, bare.URI.ID)
	if err := serve(bare.URI); !errors.Is(err, hsm.ErrKeyMismatch) || hinting.Of(err) == "" {
		t.Errorf("another key's certificate (%s): %v", hex.EncodeToString(bare.URI.ID), err)
	}
}

// TestPINOfTheFile: it is used, warned of, and not tried again by itself.
func TestPINOfTheFile(t *testing.T) {
	b := newBench(t)
	slot := b.key(hsm.ECDSAP256, "k")
	config := uriConfig(slot.URI)
	request := func() []byte { return b.signRequest(config, make([]byte, 32), crypto.SHA256) }

	config["pin"] = testPIN
	if _, err := b.serve(request(), hsmtest.NewScript(t)); err != nil {
		t.Errorf("with the PIN of the file: %v", err)
	}
	if len(b.warnings) != 1 || !strings.Contains(b.warnings[0], "PIN") || strings.Contains(b.warnings[0], testPIN) {
		t.Errorf("warnings %q", b.warnings)
	}
	config["pin"] = "000000"
	p := hsmtest.NewScript(t, hsmtest.PIN(testPIN))
	if _, err := b.serve(request(), p); err != nil {
		t.Errorf("a wrong PIN in the file, the right one typed: %v", err)
	}
	if asked := p.PINs(); len(asked) != 1 || !strings.Contains(asked[0].Again, "wrong PIN") {
		t.Errorf("asked %+v", asked)
	}
	r, err := wire.Parse(request())
	check(t, err)
	pin := r.Config.PIN
	if _, err := Serve(t.Context(), r, b.options(nil)); !errors.Is(err, hsm.ErrPINIncorrect) {
		t.Errorf("a wrong PIN in the file and nobody to ask: %v", err)
	}
	if pin.Len() != 0 {
		t.Error("the PIN was not overwritten")
	}
}

func TestFilePINSparesTries(t *testing.T) {
	for name, c := range map[string]struct {
		prompt hsm.PINPrompt
		used   bool
	}{
		"untouched token":      {hsm.PINPrompt{Kind: hsm.PIVPIN, Retries: 3}, true},
		"token does not tell":  {hsm.PINPrompt{Kind: hsm.UserPIN, Retries: -1}, true},
		"two tries left":       {hsm.PINPrompt{Kind: hsm.PIVPIN, Retries: 2}, false},
		"a wrong one was seen": {hsm.PINPrompt{Kind: hsm.UserPIN, Retries: -1, Token: hsm.TokenInfo{PIN: hsm.PINState{Low: true}}}, false},
		"another secret":       {hsm.PINPrompt{Kind: hsm.PUK, Retries: 3}, false},
		"a new PIN":            {hsm.PINPrompt{Kind: hsm.UserPIN, Retries: -1, New: true}, false},
	} {
		if c.prompt.Retries != 0 {
			c.prompt.Token.PIN.Retries = c.prompt.Retries
		}
		f := fromFile(hsm.NewSecret([]byte("file")),
			ask.From(hsmtest.TypingAll(t, map[hsm.PINKind]string{c.prompt.Kind: "typed"})))
		got, err := f.PIN(t.Context(), c.prompt)
		if err != nil || (string(got.Bytes()) == "file") != c.used {
			t.Errorf("%s: used %q, %v", name, got.Bytes(), err)
		}
		if again, err := f.PIN(t.Context(), c.prompt); err != nil || string(again.Bytes()) != "typed" {
			t.Errorf("%s: the second time used %q, %v", name, again.Bytes(), err)
		}
	}
}

// usedFile is a PIN from a file that was given to the token once.
func usedFile(t *testing.T, person hsm.Prompter) ask.Func {
	t.Helper()
	f := fromFile(hsm.NewSecret([]byte("file")), ask.From(person))
	if pin, err := f.PIN(t.Context(), hsm.PINPrompt{Kind: hsm.UserPIN,
		Token: hsm.TokenInfo{PIN: hsm.PINState{Retries: -1}}}); err != nil || string(pin.Bytes()) != "file" {
		t.Fatalf("%v", err)
	}
	return f
}

// TestFilePINIsWrong: that is what the user must know, not that nobody can be
// asked instead.
func TestFilePINIsWrong(t *testing.T) {
	again := hsm.PINPrompt{Kind: hsm.UserPIN, Retries: -1, Token: hsm.TokenInfo{PIN: hsm.PINState{Retries: -1}},
		Again: "wrong PIN"}
	for name, person := range map[string]hsm.Prompter{"no terminal": hsmtest.NewScript(t, hsmtest.Fail(hsm.ErrNoTerminal)),
		"nobody": nil} {
		f := usedFile(t, person)
		if _, err := f.PIN(t.Context(), again); !errors.Is(err, hsm.ErrPINIncorrect) || errors.Is(err, hsm.ErrNoTerminal) ||
			hinting.Of(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An agent that holds the token unlocked asks for no PIN at an unlock alone, and
	// none for a key that is not enrolled.
	const lockAndUnlock = "`kubehsm agent lock` and then `kubehsm unlock`"
	counted := hsm.PINPrompt{Kind: hsm.UserPIN, Retries: -1,
		Token: hsm.TokenInfo{PIN: hsm.PINState{Retries: -1, Low: true}}}
	for _, used := range []bool{false, true} { // another process tried it before this one's turn came
		nobody := hsmtest.NewScript(t, hsmtest.Fail(hsm.ErrNoTerminal))
		f := fromFile(hsm.NewSecret([]byte("file")), ask.From(nobody))
		if used {
			f = usedFile(t, nobody)
		}
		if _, err := f.PIN(t.Context(), counted); !errors.Is(err, hsm.ErrNoTerminal) ||
			!strings.Contains(err.Error(), "is not used") ||
			!strings.Contains(hinting.Of(err), "in a terminal or, if the key is enrolled, "+lockAndUnlock) {
			t.Errorf("counted, used %t: %v, hint %q", used, err, hinting.Of(err))
		}
	}
	f := usedFile(t, hsmtest.NewScript(t, hsmtest.Cancel()))
	if _, err := f.PIN(t.Context(), again); !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
}

// remote holds a key, or does not.
type remote struct {
	held bool
	uri  string
	err  error
}

func (r *remote) Sign(_ context.Context, u hsm.URI, digest []byte, _ crypto.SignerOpts) ([]byte, bool, error) {
	r.uri = u.String()
	return digest, r.held, r.err
}

func TestRemote(t *testing.T) {
	b := newBench(t)
	slot := b.key(hsm.ECDSAP256, "k")
	digest := bytes.Repeat([]byte{7}, 32)
	r, err := wire.Parse(b.signRequest(uriConfig(slot.URI), digest, crypto.SHA256))
	check(t, err)
	held := &remote{held: true}
	o := b.options(nil)
	o.Remote, b.loaded = held, nil
	answer, err := Serve(t.Context(), r, o)
	check(t, err)
	if sig, err := wire.ParseSignAnswer(answer); err != nil || !bytes.Equal(sig, digest) || b.loaded != nil {
		t.Errorf("signature %x, %v, loaded %q", sig, err, b.loaded)
	}
	if strings.Contains(held.uri, "module-path") {
		t.Errorf("the agent is told what to load: %s", held.uri)
	}
	o.Remote = &remote{err: hsm.ErrBusy}
	if _, err := Serve(t.Context(), r, o); !errors.Is(err, hsm.ErrBusy) {
		t.Errorf("error %v", err)
	}
	o.Remote, o.Prompter = &remote{}, hsmtest.NewScript(t, hsmtest.PIN(testPIN))
	if answer, err = Serve(t.Context(), r, o); err != nil {
		t.Fatal(err)
	}
	var a struct{ Signature []byte }
	if err := json.Unmarshal(answer, &a); err != nil || bytes.Equal(a.Signature, digest) {
		t.Errorf("the token did not sign: %v", err)
	}
}

// TestUnknownKeysAreFew: a kubeconfig full of what means nothing fills no screen.
func TestUnknownKeysAreFew(t *testing.T) {
	var r Request
	r.Config.URI = &hsm.URI{Scheme: hsm.SchemePIV}
	for i := range 1000 {
		r.Config.Unknown = append(r.Config.Unknown, fmt.Sprintf("key%d", i))
	}
	var warnings []string
	if _, err := Serve(t.Context(), r, Options{Drivers: func(string) hsm.Drivers { return nil },
		Warn: func(w string) { warnings = append(warnings, w) }}); err == nil {
		t.Error("a request for no key was answered")
	}
	if len(warnings) != maxUnknown+1 || !strings.Contains(warnings[maxUnknown], "996 more") {
		t.Errorf("%d warnings, the last %q", len(warnings), warnings[len(warnings)-1])
	}
}

//go:build cgo

package pkcs11

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// spied is a driver on SoftHSM whose calls are written down by OpenSC's spy.
type spied struct {
	*Driver
	soft *hsmtest.SoftHSM
	log  string
}

func softHSMSpied(t *testing.T) *spied {
	t.Helper()
	spy := need.File(t, "/usr/lib/x86_64-linux-gnu/pkcs11/pkcs11-spy.so",
		"/usr/lib/aarch64-linux-gnu/pkcs11/pkcs11-spy.so", "/usr/lib64/pkcs11/pkcs11-spy.so")
	s := &spied{soft: hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: testLabel, PIN: testPIN}),
		log: filepath.Join(t.TempDir(), "spy")}
	t.Setenv("PKCS11SPY", s.soft.Module)
	t.Setenv("PKCS11SPY_OUTPUT", s.log)
	s.Driver = New(Options{Modules: []Module{{Path: spy}}})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var called = regexp.MustCompile(`(?m)^\d+: (C_\w+)$`)

// calls counts the calls to the library that f makes.
func (s *spied) calls(t *testing.T, f func()) map[string]int {
	t.Helper()
	if err := os.Truncate(s.log, 0); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	f()
	b, err := os.ReadFile(s.log)
	must.OK(t, err)
	counts := map[string]int{}
	for _, m := range called.FindAllStringSubmatch(string(b), -1) {
		counts[m[1]]++
		counts["all"]++
	}
	return counts
}

// fill puts n public keys with certificates on the token, beside the driver,
// and private keys to the first few of them. SoftHSM takes longer for each object
// that there is: all but the first few are copies of its files, with other names
// and points in them.
func (s *spied) fill(t *testing.T, n, private int) {
	t.Helper()
	c := spyOn(t, s.soft, testLabel)
	var point []byte
	for i := range private {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must.OK(t, err)
		point, err = key.PublicKey.Bytes()
		must.OK(t, err)
		wrapped, err := asn1.Marshal(point)
		must.OK(t, err)
		secret, err := key.Bytes()
		must.OK(t, err)
		cert, err := hsmtest.Certify(key, "user")
		must.OK(t, err)
		both := []*p11.Attribute{p11.NewAttribute(p11.CKA_TOKEN, true), p11.NewAttribute(p11.CKA_ID, nth(i)),
			p11.NewAttribute(p11.CKA_LABEL, nth(i))}
		ec := append(slices.Clone(both), p11.NewAttribute(p11.CKA_KEY_TYPE, p11.CKK_EC),
			p11.NewAttribute(p11.CKA_EC_PARAMS, paramsP256))
		for _, object := range [][]*p11.Attribute{
			append(slices.Clone(ec), p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PRIVATE_KEY),
				p11.NewAttribute(p11.CKA_VALUE, secret), p11.NewAttribute(p11.CKA_PRIVATE, true),
				p11.NewAttribute(p11.CKA_SENSITIVE, true), p11.NewAttribute(p11.CKA_EXTRACTABLE, false),
				p11.NewAttribute(p11.CKA_SIGN, true)),
			append(slices.Clone(ec), p11.NewAttribute(p11.CKA_CLASS, p11.CKO_PUBLIC_KEY),
				p11.NewAttribute(p11.CKA_EC_POINT, wrapped), p11.NewAttribute(p11.CKA_PRIVATE, false)),
			append(slices.Clone(both), p11.NewAttribute(p11.CKA_CLASS, p11.CKO_CERTIFICATE),
				p11.NewAttribute(p11.CKA_CERTIFICATE_TYPE, p11.CKC_X_509),
				p11.NewAttribute(p11.CKA_SUBJECT, []byte("user")), p11.NewAttribute(p11.CKA_VALUE, cert.Raw),
				p11.NewAttribute(p11.CKA_PRIVATE, false)),
		} {
			if _, err := c.CreateObject(c.sh, object); err != nil {
				t.Fatal(err)
			}
		}
	}
	must.OK(t, c.Finalize())
	s.copy(t, private, n, point)
}

func nth(i int) []byte { return fmt.Appendf(nil, "key %04d", i) }

// copy makes the objects from the first to the nth out of the one before them,
// which has the point.
func (s *spied) copy(t *testing.T, first, n int, point []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.soft.Tokens, "*", "*.object"))
	must.OK(t, err)
	for _, f := range files {
		object, err := os.ReadFile(f)
		must.OK(t, err)
		if !bytes.Contains(object, nth(first-1)) { // the token's own, another's, or encrypted: a private key
			continue
		}
		for i := first; i < n; i++ {
			// the same for key and certificate
			key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i+1)))
			must.OK(t, err)
			fresh, err := key.PublicKey.Bytes()
			must.OK(t, err)
			changed := bytes.ReplaceAll(bytes.ReplaceAll(object, nth(first-1), nth(i)), point, fresh)
			name := fmt.Sprintf("%s-%012d.object", strings.TrimSuffix(filepath.Base(f), ".object")[:23], i)
			must.OK(t, os.WriteFile(filepath.Join(filepath.Dir(f), name), changed, 0o600))
		}
	}
}

// TestManyObjects: a listing asks for each object once, a signature not
// for those that it does not need.
func TestManyObjects(t *testing.T) {
	const pairs, private = 200, 5
	const objects = 2*pairs + private
	s := softHSMSpied(t)
	s.fill(t, pairs, private)
	u := hsm.URI{Scheme: hsm.SchemePKCS11, Token: testLabel, ID: nth(3)}
	var tok hsm.Token
	var made crypto.Signer
	t.Cleanup(func() { tok.Close() })
	counts := s.calls(t, func() {
		var err error
		tok, err = s.Open(t.Context(), u)
		must.OK(t, err)
		made, err = tok.Signer(t.Context(), u, nil, hsmtest.Typing(t, testPIN))
		must.OK(t, err)
		mustSign(t, made)
	})
	t.Logf("to open, find and sign: %v", counts)
	if counts["C_GetAttributeValue"] > 3 || counts["C_FindObjectsInit"] > 3 || counts["C_Sign"] != 1 {
		t.Errorf("too many calls for one signature: %s", listed(counts))
	}
	s.signsByLook(t, made.(*signer))
	for _, name := range []string{"unlocked", "locked"} {
		locked := name == "locked"
		if locked {
			must.OK(t, tok.Lock())
		}
		var slots []hsm.Slot
		begin := time.Now()
		counts = s.calls(t, func() {
			var err error
			slots, err = tok.Slots(t.Context(), nil)
			must.OK(t, err)
		})
		t.Logf("%s: listed in %v: %v", name, time.Since(begin), counts)
		if len(slots) != pairs {
			t.Errorf("%s: %d slots", name, len(slots))
		}
		for _, slot := range slots {
			usable := locked || string(slot.URI.ID) < string(nth(private))
			if usable != slot.CertificateMatches() || usable != (slot.Problem == "") || slot.Certificate == nil {
				t.Fatalf("%s: %+v", name, slot)
			}
		}
		if n := counts["C_GetAttributeValue"]; n > objects {
			t.Errorf("%s: %d reads of %d objects", name, n, objects)
		}
		if n := counts["all"] - counts["C_GetAttributeValue"]; n > objects/objectsAtATime+40 {
			t.Errorf("%s: %d other calls: %s", name, n, listed(counts))
		}
	}
	counts = s.calls(t, func() {
		slot, err := tok.Slot(t.Context(), u)
		if err != nil || !slot.CertificateMatches() || slot.Label != string(nth(3)) {
			t.Errorf("%+v, %v", slot, err)
		}
	})
	if counts["C_GetAttributeValue"] > 6 {
		t.Errorf("too many calls to find one: %s", listed(counts))
	}
	if _, err := tok.Slot(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Object: string(nth(4))}); err != nil {
		t.Errorf("by label: %v", err)
	}
}

// signsByLook: the public key that was read a moment ago is not read once more,
// and is after a while.
func (s *spied) signsByLook(t *testing.T, made *signer) {
	t.Helper()
	now := made.made.session
	for _, c := range []struct {
		look     look
		searches int
	}{{look{now, time.Now().Add(time.Hour)}, 1}, {look{now, time.Time{}}, 2},
		{look{now + 1, time.Now().Add(time.Hour)}, 2}} {
		made.made = c.look
		if counts := s.calls(t, func() { mustSign(t, made) }); counts["C_FindObjectsInit"] != c.searches {
			t.Errorf("read at %v: %s", c.look.at, listed(counts))
		}
	}
}

func listed(counts map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(all, ", ")
}

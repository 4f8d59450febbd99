package enrollment_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/must"
)

// of is the enrollment prod with that key, unsigned.
func of(t *testing.T, key crypto.Signer) (e enrollment.Enrollment) {
	t.Helper()
	hash, err := hsm.Fingerprint(key.Public())
	must.OK(t, errors.Join(err, json.Unmarshal([]byte(written), &e)))
	e.KeyHash = hash
	return e
}

// TestSignedRecord: whatever leads a record elsewhere, or changes what needs consent, takes the key's signature
// from it; and no other text that the key signs is one.
func TestSignedRecord(t *testing.T) {
	p256, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, err2 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	rsaKey, err3 := rsa.GenerateKey(rand.Reader, 2048)
	_, edKey, err4 := ed25519.GenerateKey(rand.Reader)
	must.OK(t, errors.Join(err1, err2, err3, err4))
	for _, key := range []crypto.Signer{p256, p384, rsaKey, edKey} {
		e := of(t, key)
		e.Policy = consent.Writes
		if _, err := e.Version(); !errors.Is(err, enrollment.ErrUnsigned) {
			t.Errorf("unsigned: %v", err)
		}
		signed, err := e.SignedBy(key, time.Unix(1e9, 0))
		if err != nil {
			t.Fatalf("%T: %v", key, err)
		}
		if v, err := signed.Version(); err != nil || v.Number != 1e9 || v.Consent().Mode != consent.Writes {
			t.Errorf("%T: %+v, %v", key, v, err)
		}
		again, err := signed.SignedBy(key, time.Unix(1, 0)) // the clock went back
		if v, err2 := again.Version(); err != nil || err2 != nil || v.Number != 1e9+1 {
			t.Errorf("the next version is %+v, %v, %v", v, err, err2)
		}
		text := "kubehsm consent v1\n" + strings.TrimPrefix(signed.Signed.Text, "kubehsm enrollment v1\n")
		signature, err := consent.Sign(key, text)
		must.OK(t, err)
		if _, err := (enrollment.Signed{Text: text, Signature: signature}).Open(e.KeyHash); !errors.Is(err, consent.ErrSignature) {
			t.Errorf("a statement of consent is a record: %v", err)
		}
	}
	signed, err := of(t, p256).SignedBy(p256, time.Now())
	must.OK(t, err)
	for what, change := range map[string]func(*enrollment.Enrollment){
		"name":     func(e *enrollment.Enrollment) { e.Name = "staging" },
		"server":   func(e *enrollment.Enrollment) { e.Cluster.Server = "https://10.0.0.2:6443" },
		"TLS name": func(e *enrollment.Enrollment) { e.Cluster.TLSServerName = "x" },
		"CA":       func(e *enrollment.Enrollment) { e.Cluster.CAData = []byte("x") },
		"proxy":    func(e *enrollment.Enrollment) { e.Cluster.ProxyURL = "http://x" },
		"direct":   func(e *enrollment.Enrollment) { e.Cluster.Direct = true },
		"verified": func(e *enrollment.Enrollment) { e.Cluster.InsecureSkipTLSVerify = true },
		"key":      func(e *enrollment.Enrollment) { e.Key.ModulePath = "/x.so" },
		"key hash": func(e *enrollment.Enrollment) { e.KeyHash = of(t, p384).KeyHash },
		"policy":   func(e *enrollment.Enrollment) { e.Policy = consent.Always },
		"rules":    func(e *enrollment.Enrollment) { e.Rules = []consent.Rule{{}} },
		"spare":    func(e *enrollment.Enrollment) { e.SpareOf, e.SpareOfKey = "x", e.KeyHash },
	} {
		e := signed
		if change(&e); only(e.Version()) == nil {
			t.Errorf("%s can be changed", what)
		}
	}
	e := signed
	e.User, e.Namespace, e.Kubeconfig, e.Created = "x", "x", "x", time.Now()
	if _, err := e.Version(); err != nil {
		t.Errorf("what leads nowhere: %v", err)
	}
}

func only[T any](_ T, err error) error { return err }

// TestSignedIsBounded: the audit log has room for what a key signs, and no number stands in the way of the next.
func TestSignedIsBounded(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	e := of(t, key)
	e.Policy, e.Rules = consent.Rules, []consent.Rule{{Namespaces: []string{strings.Repeat("n", 11<<10)}}}
	if _, err := e.SignedBy(key, time.Now()); !errors.Is(err, enrollment.ErrInvalid) {
		t.Errorf("long rules: %v", err)
	}
	e = of(t, key)
	e.Signed.Text = `kubehsm enrollment v1` + "\n" + `{"number":9007199254740992}`
	signed, err := e.SignedBy(key, time.Unix(5, 0))
	if v, err2 := signed.Version(); err != nil || err2 != nil || v.Number != 5 {
		t.Errorf("after a text that the key has not signed: %+v, %v, %v", v, err, err2)
	}
}

// TestChanges: what a person is told of a change has each field that differs, with both values.
func TestChanges(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	from, to := of(t, key), of(t, key)
	from.Cluster.TLSServerName = "api"
	to.Cluster.Server, to.Policy, to.Cluster.ProxyURL = "https://evil\n:1", consent.Writes, "http://p"
	got := fmt.Sprint(enrollment.Changes(from.Says(), to.Says()))
	want := `[{Server [now "https://evil\n:1" (contains control characters) was "https://10.0.0.1:6443"] false} {Proxy ["http://p"] false} ` +
		`{Policy [now writes was session] false} {TLS name [none now was "api"] false}]`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	from.SpareOf, from.SpareOfKey = to.Name, to.KeyHash
	next, differs, err := from.Follow(to)
	if err != nil || !differs || !reflect.DeepEqual(next.Says().Cluster, to.Says().Cluster) || next.Policy != consent.Writes {
		t.Errorf("%+v, %t, %v", next, differs, err)
	}
}

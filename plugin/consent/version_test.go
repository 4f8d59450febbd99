package consent

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

func signedVersion(t *testing.T, key crypto.Signer, number uint64, before string, p Policy) (string, []byte) {
	t.Helper()
	v, err := Next(key.Public(), number, before, p, time.Now())
	check(t, err)
	text, err := v.Text()
	check(t, err)
	signature, err := Sign(key, text)
	check(t, err)
	return text, signature
}

// TestVersions: a key of any kind signs the versions of its policy. Nothing in one can be
// changed, and no other text that the key signs is one.
func TestVersions(t *testing.T) {
	ec, err1 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, ed, err2 := ed25519.GenerateKey(rand.Reader)
	rs, err3 := rsa.GenerateKey(rand.Reader, 2048)
	other, err4 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	check(t, errors.Join(err1, err2, err3, err4))
	policy := Policy{Mode: Rules, Rules: []Rule{{Verbs: []string{"delete"}, Namespaces: []string{"prod"}}, {DryRun: true}}}
	for _, key := range []crypto.Signer{ec, ed, rs} {
		text, signature := signedVersion(t, key, 3, "the one before", policy)
		first, err := Next(key.Public(), 1, "", policy, time.Now())
		check(t, err)
		hash := first.Hash()
		v, err := Signed{text, signature}.Open(hash)
		if err != nil || v.Number != 3 || v.Before != Digest("the one before") || v.Consent().String() != policy.String() {
			t.Errorf("%T: %+v, %v", key, v, err)
		}
		again, _ := signedVersion(t, key, 3, "the one before", policy)
		if again == text {
			t.Error("two versions are the same text")
		}
		foreign, foreignSignature := signedVersion(t, other, 3, "", policy)
		statement, err := Statement{Enrollment: "prod"}.Text()
		check(t, err)
		statementSignature, err := Sign(key, statement)
		check(t, err)
		disguised := versionDomain + strings.TrimPrefix(statement, domain)
		for name, bad := range map[string]struct {
			text      string
			signature []byte
		}{
			"another number":          {strings.Replace(text, `"number":3`, `"number":4`, 1), signature},
			"another policy":          {strings.Replace(text, "verbs=delete", "verbs=create", 1), signature},
			"another key's text":      {foreign, signature},
			"another key's":           {foreign, foreignSignature},
			"a statement":             {statement, statementSignature},
			"a statement in disguise": {disguised, statementSignature},
			"no signature":            {text, nil},
			"nothing":                 {"", nil},
		} {
			if _, err := (Signed{bad.text, bad.signature}).Open(hash); !errors.Is(err, ErrSignature) {
				t.Errorf("%T: %s: %v", key, name, err)
			}
		}
		// Nor is a version a statement.
		if err := Verify(key.Public(), text, signature); !errors.Is(err, ErrSignature) {
			t.Errorf("%T: a version passes for a statement: %v", key, err)
		}
		if _, err := Read(text); err == nil {
			t.Errorf("%T: a version is read as a statement", key)
		}
	}
	if strings.HasPrefix(domain, versionDomain) || strings.HasPrefix(versionDomain, domain) {
		t.Error("one domain is the beginning of the other")
	}
}

// TestVersionBounds: what a key signs that is no use as a policy is refused, however it
// was signed.
func TestVersionBounds(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	if _, err := Next(key.Public(), 1, "", Policy{Mode: "sometimes"}, time.Now()); err == nil {
		t.Error("an unknown policy is a version")
	}
	many := Policy{Mode: Rules, Rules: slices.Repeat([]Rule{{Namespaces: []string{strings.Repeat("n", 60)}}}, 250)}
	if _, err := Next(key.Public(), 1, "", many, time.Now()); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%d rules: %v", len(many.Rules), err)
	}
	if joined := many.Joined(); joined.String() != string(Always) {
		t.Errorf("%d rules that no key signs become %s", len(many.Rules), joined)
	}
	v, err := Next(key.Public(), 1, "", Policy{}, time.Now())
	check(t, err)
	for name, spoil := range map[string]func(*Version){
		"number 0":         func(v *Version) { v.Number = 0 },
		"no next number":   func(v *Version) { v.Number = maxNumber + 1 },
		"unknown policy":   func(v *Version) { v.Policy = "sometimes" },
		"a key of no kind": func(v *Version) { v.Key = []byte("key") },
	} {
		bad := v
		spoil(&bad)
		text, err := bad.Text()
		check(t, err)
		signature, err := Sign(key, text)
		check(t, err)
		if got, err := (Signed{text, signature}).Open(bad.Hash()); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestStrictestKeepsNoMoreThanCounts: of policies that cover each other one remains.
func TestStrictestKeepsNoMoreThanCounts(t *testing.T) {
	a := Policy{Mode: Rules, Rules: []Rule{{Verbs: []string{"get"}, Resources: []string{"secrets"}}}}
	b := Policy{Mode: Rules, Rules: []Rule{{Verbs: []string{"list"}, Resources: []string{"nodes"}}}}
	both := Strictest(a, Policy{}, b, a)
	if got := both.String(); got != a.String()+", and "+b.String() || len(both.Parts()) != 2 {
		t.Errorf("%s", got)
	}
	if got := Strictest(both, Policy{Mode: Always}, both); got.String() != "always" || len(got.Parts()) != 1 {
		t.Errorf("%s", got)
	}
	if got := Strictest(both, both); got.String() != both.String() {
		t.Errorf("%s", got)
	}
	if p := ParsePolicy(both.String()); p.Validate() == nil {
		t.Errorf("%q is read as one policy", p)
	}
}

// TestLongestVersion: what one key signs, any other key can sign in its place.
func TestLongestVersion(t *testing.T) {
	longest := Policy{Mode: Rules, Rules: []Rule{{Namespaces: []string{"n"}}}}
	pad := func() string { return strings.Repeat("n", maxWords-len(longest.words())+1) }
	longest.Rules[0].Namespaces[0] = pad()
	if n := len(longest.words()); n != maxWords || longest.Joined().String() != longest.String() {
		t.Fatalf("%d bytes, joined %s", n, longest.Joined())
	}
	key := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 16383), E: 65537} // no token has a longer one
	v, err := Next(key, maxNumber, "the version before", longest, time.Now())
	check(t, err)
	if _, err := v.Text(); err != nil {
		t.Error(err)
	}
	longest.Rules[0].Namespaces[0] += "n"
	if _, err := Next(key, 1, "", longest, time.Now()); err == nil {
		t.Error("a longer one can be signed")
	}
}

package csr

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWordlist: BIP-0039 publishes the list with this digest.
func TestWordlist(t *testing.T) {
	const published = "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"
	if got := hashHex([]byte(wordlist)); got != published {
		t.Errorf("the list's digest is %s", got)
	}
	seen := map[string]bool{}
	for _, w := range strings.Fields(wordlist) {
		stem := w[:min(4, len(w))]
		if seen[stem] {
			t.Errorf("two words begin with %q", stem)
		}
		seen[stem] = true
	}
}

func TestFingerprintWords(t *testing.T) {
	sum := sha256.Sum256([]byte("a key"))
	words, err := FingerprintWords(hex.EncodeToString(sum[:]))
	if err != nil || len(words) != FingerprintWordCount {
		t.Fatalf("%v, %v", words, err)
	}
	// Back to a number, the other way round than they were made.
	n := new(big.Int)
	for _, w := range words {
		at := -1
		for i, x := range strings.Fields(wordlist) {
			if x == w {
				at = i
			}
		}
		n.Add(n.Lsh(n, wordBits), big.NewInt(int64(at)))
	}
	if want := new(big.Int).SetBytes(sum[:wordBits*FingerprintWordCount/8]); n.Cmp(want) != 0 {
		t.Errorf("the words say %x, the fingerprint %x", n, want)
	}
	for _, bad := range []string{"", "zz", strings.Repeat("0", 62), strings.Repeat("g", 64)} {
		if _, err := FingerprintWords(bad); err == nil {
			t.Errorf("%q gave words", bad)
		}
	}
}

func TestSameWords(t *testing.T) {
	words := []string{"act", "abandon", "zoo", "zebra"}
	for said, want := range map[string]bool{
		"act abandon zoo zebra":    true,
		" Act, ABAN; zoo\nzebra.":  true,
		"action abandon zoo zebra": false,
		"act aba zoo zebra":        false,
		"act abandon zoo":          false,
		"abandon act zoo zebra":    false,
		"":                         false,
	} {
		if SameWords(said, words) != want {
			t.Errorf("%q: %v", said, !want)
		}
	}
}

func TestBrief(t *testing.T) {
	for _, text := range []string{"", "who is jane?", strings.Repeat("é", 500), strings.Repeat("é", 700),
		"x" + strings.Repeat("é", 60<<10)} {
		got := Brief(text)
		if len(text) <= maxForeign && got != text || len(got) > maxForeign+4 || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %d", len(text), len(got))
		}
	}
}

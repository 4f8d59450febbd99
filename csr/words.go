package csr

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// wordlist is BIP-0039's English list (MIT licence; trezor/python-mnemonic):
// 2048 words that differ in their first four letters.
//
//go:embed words.txt
var wordlist string

const (
	wordBits = 11
	// FingerprintWordCount is how many words tell a key: 88 bits. Whoever wants
	// to pass another key off for one must generate 2^88 keys.
	FingerprintWordCount = 8
)

// FingerprintWords are the first 88 bits of a key's fingerprint (SPKIHash, 64
// hex digits) as eight words to read over the phone, from the most significant
// bits on. They are no mnemonic of BIP-0039: there is no checksum in them.
func FingerprintWords(spkiHash string) ([]string, error) {
	sum, err := hex.DecodeString(spkiHash)
	if err != nil || len(sum) != 32 {
		return nil, &InputError{Field: "fingerprint", Problem: fmt.Sprintf("%q is not a SHA-256 in hex", spkiHash)}
	}
	list, words := strings.Fields(wordlist), make([]string, FingerprintWordCount)
	for i := range words {
		n := 0
		for bit := i * wordBits; bit < (i+1)*wordBits; bit++ {
			n = n<<1 | int(sum[bit/8]>>(7-bit%8))&1
		}
		words[i] = list[n]
	}
	return words, nil
}

// SameWords reports whether said, as a person typed what was read to them, are
// the words. Case and what stands between the words do not matter, nor does what
// follows a word's fourth letter: no two words of the list share four.
func SameWords(said string, words []string) bool {
	heard := strings.FieldsFunc(strings.ToLower(said), func(r rune) bool { return r < 'a' || r > 'z' })
	return slices.EqualFunc(heard, words, func(h, w string) bool {
		return h == w || len(h) >= 4 && len(w) >= 4 && h[:4] == w[:4]
	})
}

// maxForeign bounds what others wrote where it becomes part of a line, in bytes.
const maxForeign = 1000

// Brief is text that others wrote, cut where it is too long to be read.
func Brief(text string) string {
	if len(text) <= maxForeign {
		return text
	}
	return strings.ToValidUTF8(text[:maxForeign], "") + " …"
}

// Package tokens holds docs/tokens.md to what the contract suite sees of each token in software, and makes the
// [Report] of a physical one (see the package hardware).
package tokens

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
)

// features are lines of the table in docs/tokens.md: words, and the suite's parts that all must have shown it.
var features = []struct {
	words string
	parts []string
}{
	{"Listed with serial and PIN state, without a PIN", []string{"List", "Open"}},
	{"One of several told apart", []string{"OpenAmongTwo"}},
	{"Keys and certificates listed without a PIN", []string{"SlotsWithoutPIN"}},
	{"Key made on the token", []string{"Generate", "GenerateRefuses", "Occupied"}},
	{"Private key does not come out, all ways tried", []string{"NotExtractable"}},
	{"Certificate stored beside its key", []string{"Certificate", "CertificateMismatch"}},
	{"Key deleted", []string{"Delete"}},
	{"Signatures, also many at once", []string{"Sign", "SignConcurrently", "SignRefusesDigest"}},
	{"RSA-PSS (by the token or padded here)", []string{"PSS"}},
	{"TLS 1.2 and 1.3 client handshakes", []string{"TLS"}},
	{"Replaced key noticed", []string{"WantedKey", "SlotLookup"}},
	{"PIN asked for once, nobody asked: refused", []string{"UnlockOnceForAll", "UnlockNobody", "Lock"}},
	{"Wrong PIN costs one try, told and asked again", []string{"Unlock", "UnlockCancelled", "SignAsks"}},
	{"One-time password typed as PIN costs no try", []string{"UnlockRefusesOTP"}},
	{"Tries counted; the last one needs a yes", []string{"UnlockLastTry"}},
	{"Unplugged in use, plugged in again", []string{"Unplug"}},
	{"Given up in the middle, nothing left behind", []string{"SignCancelled"}},
}

// algorithms are the lines below, in this order.
var algorithms = []hsm.Algorithm{
	hsm.ECDSAP256, hsm.ECDSAP384, hsm.Ed25519, hsm.RSA2048, hsm.RSA3072, hsm.RSA4096,
}

// page returns docs/tokens.md.
func page(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	must.OK(t, err)
	for {
		b, err := os.ReadFile(filepath.Join(dir, "docs", "tokens.md"))
		if err == nil {
			return string(b)
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no docs/tokens.md above the working directory: %v", err)
		}
		dir = filepath.Dir(dir)
	}
}

// Record fails t unless the column title of docs/tokens.md says what the suite has just seen. Partial results
// (go test -run) are not compared.
func Record(t *testing.T, title, driver string, r hsmtest.Results) {
	t.Helper()
	if !r.Complete {
		return
	}
	seen := map[string]string{"Reached by": driver}
	for _, f := range features {
		seen[f.words] = word(sum(r, f.parts))
	}
	for _, a := range algorithms {
		seen["Signs and connects with "+string(a)] = word(r.Algorithms[a])
	}
	column := -1
	for line := range strings.Lines(page(t)) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		first := cells[1]
		if first == "" { // the heads
			column = slices.Index(cells, title)
		}
		saw, ok := seen[first]
		if !ok || column < 0 {
			continue
		}
		delete(seen, first)
		if cells[column] != saw {
			t.Errorf("docs/tokens.md says of %s, %q: %q; the suite saw %q", title, first, cells[column], saw)
		}
	}
	for words, saw := range seen {
		t.Errorf("docs/tokens.md does not say of %s, %q: %q", title, words, saw)
	}
}

// RecordKind fails t unless docs/tokens.md says of a kind of PIV card what the suite has just seen.
func RecordKind(t *testing.T, title, about string, r hsmtest.Results) {
	t.Helper()
	if !r.Complete {
		return
	}
	var with, not []string
	for _, a := range algorithms {
		if r.Algorithms[a] == hsmtest.Can {
			with = append(with, string(a))
		}
	}
	for _, f := range features {
		// No virtual card has a way to take its key out, and deletion has a cell of its own.
		saw := sum(r, f.parts)
		if saw != hsmtest.Can && f.parts[0] != "NotExtractable" && f.parts[0] != "Delete" {
			not = append(not, f.words+": "+word(saw))
		}
	}
	rest := "yes"
	if len(not) > 0 {
		rest = strings.Join(not, "; ")
	}
	line := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", title, about, strings.Join(with, ", "), word(r.Parts["Delete"]), rest)
	if !strings.Contains(page(t), "\n"+line) {
		t.Errorf("docs/tokens.md does not have this line, which is what the suite saw:\n%s", line)
	}
}

// sum sums up parts: "failed" or "no" if one is, else "not tried" if one was not tried.
func sum(r hsmtest.Results, parts []string) hsmtest.Result {
	var all []hsmtest.Result
	for _, p := range parts {
		all = append(all, r.Parts[p])
	}
	switch {
	case slices.Contains(all, hsmtest.Failed):
		return hsmtest.Failed
	case slices.Contains(all, hsmtest.Cannot):
		return hsmtest.Cannot
	case slices.ContainsFunc(all, func(r hsmtest.Result) bool { return r != hsmtest.Can }):
		return hsmtest.Untested
	}
	return hsmtest.Can
}

func word(r hsmtest.Result) string {
	switch r {
	case hsmtest.Can, hsmtest.Cannot, hsmtest.Failed:
		return string(r)
	}
	return "–"
}

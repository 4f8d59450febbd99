package tokens

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/must"
)

// TestTableIsCurrent: docs/tokens.md is what the results make of it.
func TestTableIsCurrent(t *testing.T) {
	root, err := Root()
	must.OK(t, err)
	want, err := Document(root)
	must.OK(t, err)
	have, err := os.ReadFile(filepath.Join(root, "docs", "tokens.md"))
	if err != nil || string(have) != want {
		t.Errorf("docs/tokens.md is not current (%v): run `go run ./test/tokens/table`", err)
	}
}

func TestRender(t *testing.T) {
	c := Column{Title: "Key | <b>", Driver: "piv",
		Algorithms: map[hsm.Algorithm]hsmtest.Result{hsm.ECDSAP256: hsmtest.Can},
		Parts: map[string]hsmtest.Result{"List": hsmtest.Can, "Open": hsmtest.Can, "Delete": hsmtest.Cannot,
			"Sign": hsmtest.Can, "SignConcurrently": hsmtest.Untested, "SignRefusesDigest": hsmtest.Can}}
	text := Render([]Column{c}, []Column{c}, nil)
	for _, want := range []string{
		"|  | Key    b  |", "| Listed with serial and PIN state, without a PIN | yes |", "| Key deleted | no |",
		"| Signatures, also many at once | – |", "with ecdsa-p256 | yes |", "with ed25519 | – |", "None yet.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

package bootstraptoken

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"sigs.k8s.io/yaml"
)

const (
	exampleID     = "abcdef"
	exampleSecret = "0123456789abcdef"
	example       = exampleID + "." + exampleSecret
)

func mustParse(t testing.TB, text string) Token {
	t.Helper()
	token, err := Parse([]byte(text))
	must.OK(t, err)
	return token
}

func TestParse(t *testing.T) {
	for _, text := range []string{example, "000000.zzzzzzzzzzzzzzzz", "a1b2c3.0a9z0a9z0a9z0a9z"} {
		token := mustParse(t, text)
		if token.Reveal() != text || token.ID() != text[:6] || string(token.Key()) != text[7:] {
			t.Errorf("%s reads as %s, %s", text, token.Reveal(), token.ID())
		}
	}
	input := []byte(example)
	token, err := Parse(input)
	must.OK(t, err)
	clear(input)
	if token.Reveal() != example {
		t.Error("the token shares the caller's memory")
	}
}

// upstream is BootstrapTokenPattern.
var upstream = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", ".", "abcdef", "abcdef.", ".0123456789abcdef", "abcde.0123456789abcdef", "abcdefg.0123456789abcdef",
		"abcdef.0123456789abcde", "abcdef.0123456789abcdefg", "ABCDEF.0123456789abcdef", "abcdef.0123456789ABCDEF",
		" " + example, example + "\n", example + "\x00", "abcdef0123456789abcdef", "abcdef:0123456789abcdef",
		"abcdef.01234567.9abcdef", "abcdef.0123456789abcd\xc3\xa9", "abc/ef.0123456789abcdef", "abcdef.0123456789abcd`{", "abcdef.0123456789abcd:/",
	} {
		token, err := Parse([]byte(text))
		if !errors.Is(err, ErrMalformed) || !token.IsZero() {
			t.Errorf("Parse(%q) = %q, %v", text, token.Reveal(), err)
			continue
		}
		if len(text) > 8 && (strings.Contains(err.Error(), text) || strings.Contains(err.Error(), text[7:])) {
			t.Errorf("the error repeats what may be a secret: %v", err)
		}
		if hint.Of(err) == "" {
			t.Errorf("Parse(%q): no hint", text)
		}
	}
}

func TestParseID(t *testing.T) {
	for text, want := range map[string]string{exampleID: exampleID, example: exampleID} {
		if id, err := ParseID(text); err != nil || id != want {
			t.Errorf("ParseID(%q) = %q, %v", text, id, err)
		}
	}
	for _, text := range []string{"", "abcde", "ABCDEF", "bootstrap-token-abcdef", example + "x"} {
		if id, err := ParseID(text); !errors.Is(err, ErrMalformed) || id != "" || hint.Of(err) == "" {
			t.Errorf("ParseID(%q) = %q, %v", text, id, err)
		}
	}
}

func TestGenerate(t *testing.T) {
	seen, letters := map[string]bool{}, map[byte]int{}
	const rounds = 2000
	for range rounds {
		token, err := Generate()
		must.OK(t, err)
		text := token.Reveal()
		if !upstream.MatchString(text) || seen[text] {
			t.Fatalf("generated %q", text)
		}
		seen[text] = true
		for _, c := range token.Key() {
			letters[c]++
		}
	}
	// 32000 letters of 36: 889 each, give or take 29. Ten times that is no luck.
	if len(letters) != 36 {
		t.Errorf("%d different letters", len(letters))
	}
	for c, n := range letters {
		if n < 600 || n > 1180 {
			t.Errorf("the letter %c came %d times", c, n)
		}
	}
}

// holder keeps a token where fmt may call no method of it.
type holder struct{ token Token }

func TestTokenIsNeverShown(t *testing.T) {
	token := mustParse(t, example)
	const redacted = "abcdef.<redacted>"
	record := Record{Token: token}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		for _, v := range []any{token, &token, record, &record, []Token{token}, map[string]Token{"a": token}, holder{token},
			&holder{token}} {
			if out := fmt.Sprintf(format, v); leaks(out) {
				t.Errorf("%s of a %T shows %s", format, v, out)
			}
		}
	}
	if out := fmt.Sprint(token); out != redacted {
		t.Errorf("prints as %s", out)
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "token", token, "record", record, "holder", holder{token})
	}
	asJSON, err := json.Marshal(map[string]any{"t": token, "r": record})
	must.OK(t, err)
	asYAML, err := yaml.Marshal(record)
	must.OK(t, err)
	for name, out := range map[string]string{"log": log.String(), "JSON": string(asJSON), "YAML": string(asYAML)} {
		if leaks(out) || !strings.Contains(out, "redacted") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if (Token{}).String() != "" || (Token{}).Reveal() != "" || (Token{}).Key() != nil {
		t.Error("no token prints as something")
	}
}

// leaks reports whether out holds the example's secret as text, hex or bytes.
func leaks(out string) bool {
	for _, form := range []string{exampleSecret, fmt.Sprintf("%x", exampleSecret), fmt.Sprintf("%X", exampleSecret),
		"48 49 50 51", "0x30, 0x31", "[48,49,50"} {
		if strings.Contains(out, form) {
			return true
		}
	}
	return false
}

func TestEqualAndWipe(t *testing.T) {
	a, b := mustParse(t, example), mustParse(t, example)
	if !a.Equal(b) || a.Equal(mustParse(t, "abcdef.0123456789abcdee")) || a.Equal(mustParse(t, "abcdeg."+exampleSecret)) ||
		a.Equal(Token{}) {
		t.Error("Equal is wrong")
	}
	copied := a
	a.Wipe()
	if strings.Contains(a.Reveal()+copied.Reveal(), exampleSecret) || a.Equal(b) {
		t.Error("the secret survives Wipe")
	}
	Token{}.Wipe()
	if b.User() != "system:bootstrap:abcdef" {
		t.Errorf("user %s", b.User())
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{example, "", "abcdef.", "ABCDEF.0123456789abcdef", example + "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		token, err := Parse(text)
		if (err == nil) != upstream.Match(text) {
			t.Fatalf("Parse(%q): %v, unlike upstream", text, err)
		}
		if err == nil && token.Reveal() != string(text) {
			t.Fatalf("%q reads as %q", text, token.Reveal())
		}
	})
}

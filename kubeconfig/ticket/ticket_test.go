package ticket

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/test/must"
)

const secret = "0123456789abcdef"

func sample(t testing.TB) Ticket {
	t.Helper()
	token, err := bootstraptoken.Parse([]byte("abcdef." + secret))
	must.OK(t, err)
	return Ticket{
		Terms: Terms{User: "jane@example.org", Groups: []string{"dev", "opérations"}, Signer: "example.com/client",
			Lifetime: 24 * time.Hour, Policy: Attested | TouchAlways, Serial: "1234567"},
		Name: "prod", Server: "https://10.0.0.1:6443/k8s", Pins: []discovery.Pin{{1, 2}, {3}}, Token: token,
		Expires: time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC),
	}
}

func reveal(t testing.TB, k Ticket) string {
	t.Helper()
	text, err := k.Reveal()
	must.OK(t, err)
	return text
}

func TestRoundTrip(t *testing.T) {
	small := sample(t)
	small.Terms, small.Name, small.Pins = Terms{User: "jane"}, "", small.Pins[:1]
	for name, want := range map[string]Ticket{"whole": sample(t), "small": small} {
		text := reveal(t, want)
		if !strings.HasPrefix(text, "KHSM1-") {
			t.Errorf("%s: %s", name, text)
		}
		forms := map[string]string{"as it is": text, "lower case": strings.ToLower(text),
			"one line": strings.ReplaceAll(text, "-", ""),
			"wrapped":  strings.ReplaceAll(text, "-", "\r\n  "), "misread": text[:6] + strings.NewReplacer("O", "0", "I", "1", "B", "8").Replace(text[6:])}
		quoted, boxed := "", "╭"+strings.Repeat("─", 40)+"╮\n"
		for part := range strings.SplitSeq(text, "-") {
			quoted += "> " + part + "\r\n"
			boxed += "│ " + part + " │\n"
			if whole := strings.HasSuffix(text, part); !whole && (!Begun([]byte(quoted)) || !Begun([]byte(boxed))) {
				t.Errorf("%s: no more is expected after %q", name, boxed)
			}
		}
		if Begun([]byte(boxed)) || Begun([]byte("abc")) || !Begun([]byte("╭──")) || !Begun(nil) {
			t.Errorf("%s: what is whole or wrong counts as begun, or a border does not", name)
		}
		forms["quoted"], forms["in a box"] = quoted, boxed+"╰"+strings.Repeat("─", 40)+"╯\n"
		for form, text := range forms {
			got, err := Parse([]byte(text))
			if err != nil {
				t.Fatalf("%s, %s: %v", name, form, err)
			}
			if !got.Token.Equal(want.Token) {
				t.Errorf("%s, %s: another token", name, form)
			}
			got.Token = want.Token
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %+v, want %+v", name, form, got.Terms, want.Terms)
			}
		}
	}
}

// Every single wrong, missing, doubled or swapped character is told.
func TestTypos(t *testing.T) {
	text := strings.ReplaceAll(reveal(t, sample(t)), "-", "")
	for i := range len(text) {
		other := byte('A')
		if text[i] == other {
			other = 'Z'
		}
		for what, typo := range map[string]string{
			"wrong":   text[:i] + string(other) + text[i+1:],
			"missing": text[:i] + text[i+1:],
			"double":  text[:i] + text[i:i+1] + text[i:],
		} {
			_, err := Parse([]byte(typo))
			if !errors.Is(err, ErrChecksum) && !(i < 5 && (errors.Is(err, ErrMalformed) || errors.Is(err, ErrVersion))) {
				t.Errorf("character %d %s: %v", i, what, err)
			}
		}
		if i > 5 && text[i] != text[i-1] {
			swapped := text[:i-1] + text[i:i+1] + text[i-1:i] + text[i+1:]
			if _, err := Parse([]byte(swapped)); !errors.Is(err, ErrChecksum) {
				t.Errorf("characters %d and %d swapped: %v", i-1, i, err)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	encode := func(fields ...byte) string {
		return "KHSM1" + alphabet().EncodeToString(append(fields, checksum(fields)...))
	}
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"nothing":         {"", ErrMalformed},
		"a token":         {"abcdef." + secret, ErrMalformed},
		"only its head":   {"KHSM", ErrMalformed},
		"a later version": {"KHSM2-AAAAA", ErrVersion},
		"no body":         {"KHSM1", ErrChecksum},
		"unknown field":   {encode(99, 1, 0), ErrVersion},
		"cut off":         {encode(fieldServer, 9, 'a'), ErrMalformed},
		"out of order":    {encode(fieldUser, 1, 'a', fieldServer, 1, 'b'), ErrMalformed},
		"twice":           {encode(fieldUser, 1, 'a', fieldUser, 1, 'b'), ErrMalformed},
		"no token":        {encode(fieldServer, 3, 'a', ':', '1'), ErrMalformed},
		"a short pin":     {encode(fieldPin, 1, 1), ErrMalformed},
		"too long":        {"KHSM1" + strings.Repeat("A", maxEncoded), ErrMalformed},
	} {
		if _, err := Parse([]byte(tc.text)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for field, change := range map[string]func(*Ticket){
		"server":  func(k *Ticket) { k.Server = "http://a" },
		"pins":    func(k *Ticket) { k.Pins = nil },
		"user":    func(k *Ticket) { k.User = "" },
		"expires": func(k *Ticket) { k.Expires = time.Time{} },
		"token":   func(k *Ticket) { k.Token = bootstraptoken.Token{} },
		"name":    func(k *Ticket) { k.Name = "a\x1b[2J" },
	} {
		k := sample(t)
		change(&k)
		var bad *InputError
		if _, err := k.Reveal(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A ticket is a secret: however it is printed, its token is not.
func TestRedacted(t *testing.T) {
	k := sample(t)
	held := struct{ T Ticket }{k}
	doc, err := json.Marshal(held)
	must.OK(t, err)
	for _, text := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s %q %x", k, k, k, k, k, k),
		fmt.Sprintf("%+v %#v", held, held), string(doc), k.LogValue().String()} {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
			t.Errorf("the token is in %q", text)
		}
	}
	if k.Expired(k.Expires.Add(-time.Second)) != nil || !errors.Is(k.Expired(k.Expires), ErrExpired) {
		t.Error("the expiry is not at its second")
	}
}

func TestDescription(t *testing.T) {
	for _, want := range []Terms{sample(t).Terms, {User: "a&b=c %"}} {
		got, err := ParseDescription(want.Description())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", want.Description(), got, err)
		}
	}
	for _, text := range []string{"", "for jane", "kubehsm ticket: ", "kubehsm ticket: user=a&user=b",
		"kubehsm ticket: user=a&unknown=1", "kubehsm ticket: user=a&policy=x", "kubehsm ticket: user=a&lifetime=x"} {
		if got, err := ParseDescription(text); !errors.Is(err, ErrNoTerms) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestTokenGroups: the groups of a token carry the terms whole, in a form that
// the API server takes, among groups of others.
func TestTokenGroups(t *testing.T) {
	long := Terms{User: strings.Repeat("jane", 60), Signer: "example.com/own", Lifetime: time.Hour,
		Policy: Attested | TouchAlways, Serial: "1234"}
	for i := range maxGroups {
		long.Groups = append(long.Groups, fmt.Sprintf("team-%d-%s", i, strings.Repeat("x", 20)))
	}
	for _, want := range []Terms{sample(t).Terms, {User: "a&b=c %\x1b[2J"}, long} {
		groups := want.TokenGroups()
		token, err := bootstraptoken.Generate()
		must.OK(t, err)
		if err := (bootstraptoken.Record{Token: token, Usages: bootstraptoken.KnownUsages(),
			Groups: groups}).Validate(); err != nil || groups[0] != Group {
			t.Errorf("%q: %v", groups, err)
		}
		slices.Reverse(groups)
		got, err := TermsOf(append([]string{"system:authenticated", bootstraptoken.Group}, groups...))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, %v", want, got, err)
		}
	}
	if _, err := TermsOf([]string{"system:authenticated", Group}); !errors.Is(err, ErrNoTerms) {
		t.Errorf("a token without terms: %v", err)
	}
	parts := long.TokenGroups()[1:]
	if len(parts) < 3 {
		t.Fatalf("%d parts", len(parts))
	}
	for what, groups := range map[string][]string{
		"a part is missing":   parts[1:],
		"the end is missing":  parts[:len(parts)-1],
		"a part is twice":     append(slices.Clone(parts), parts[0]+"aa"),
		"no number":           {TermsPrefix + "mfzwk"},
		"an endless number":   {TermsPrefix + "1-99999999999:mfzwk"},
		"no base32":           {TermsPrefix + "1-1:0189"},
		"no terms":            {TermsPrefix + "1-1:mfzwk"},
		"nothing":             {TermsPrefix},
		"more than ever made": {TermsPrefix + "1-1:" + strings.Repeat("a", 2*maxEncoded)},
	} {
		if got, err := TermsOf(groups); !errors.Is(err, ErrTerms) || errors.Is(err, ErrNoTerms) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(reveal(f, sample(f))))
	f.Add([]byte("KHSM1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse([]byte(reveal(t, k)))
		if err != nil || again.String() != k.String() {
			t.Errorf("%v, %v", again, err)
		}
	})
}

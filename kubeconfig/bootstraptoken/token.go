package bootstraptoken

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Sizes of a token's two parts, in characters of [a-z0-9].
const (
	IDLength     = 6
	SecretLength = 16
)

// ErrMalformed: the text is not a bootstrap token, or not a token ID. Errors
// that wrap it never quote the text, which may be a secret.
var ErrMalformed = errors.New("not a bootstrap token")

// Token is a bootstrap token. The zero value is none. Copies share the secret,
// see [Token.Wipe].
type Token struct {
	id     string
	secret *cell
}

// cell keeps a secret two pointers away: in somebody's unexported field fmt
// calls no method of a Token, and follows one pointer at most, for a wrong verb.
type cell struct{ bytes *[SecretLength]byte }

func newToken(id string, secret []byte) Token {
	return Token{id: id, secret: &cell{(*[SecretLength]byte)(append([]byte(nil), secret...))}}
}

// Parse reads a token of the form ID.SECRET, exactly: white space around it is
// the caller's to remove. Anything else is [ErrMalformed]. text is not kept.
func Parse(text []byte) (Token, error) {
	id, secret, ok := cut(text)
	if !ok || len(id) != IDLength || len(secret) != SecretLength || !plain(id) || !plain(secret) {
		return Token{}, malformed(text)
	}
	return newToken(string(id), secret), nil
}

// cut is bytes.Cut at the first dot.
func cut(text []byte) (id, secret []byte, ok bool) {
	for i, c := range text {
		if c == '.' {
			return text[:i], text[i+1:], true
		}
	}
	return nil, nil, false
}

// plain reports that s is of [a-z0-9] only. It reads all of s: where a secret
// goes wrong is nobody's business.
func plain(s []byte) bool {
	good := 1
	for _, c := range s {
		lower := subtle.ConstantTimeLessOrEq('a', int(c)) & subtle.ConstantTimeLessOrEq(int(c), 'z')
		digit := subtle.ConstantTimeLessOrEq('0', int(c)) & subtle.ConstantTimeLessOrEq(int(c), '9')
		good &= lower | digit
	}
	return good == 1
}

// malformed says what is wrong with text without repeating any of it.
func malformed(text []byte) error {
	form := fmt.Sprintf("a token is %d characters, a dot and %d characters, of a-z and 0-9 only", IDLength, SecretLength)
	s := string(text)
	switch {
	case s == "":
		return hint.Withf(fmt.Errorf("%w: it is empty", ErrMalformed), "%s", form)
	case strings.TrimSpace(s) != s:
		return hint.Withf(fmt.Errorf("%w: there is white space around it", ErrMalformed), "%s", form)
	case strings.ToLower(s) != s:
		return hint.Withf(fmt.Errorf("%w: it has capital letters", ErrMalformed), "%s", form)
	default:
		return hint.Withf(fmt.Errorf("%w: it does not have the form", ErrMalformed), "%s", form)
	}
}

// ParseID reads a token ID, or the ID out of a whole token: what delete takes.
func ParseID(text string) (string, error) {
	if ValidID(text) {
		return text, nil
	}
	t, err := Parse([]byte(text))
	if err != nil {
		return "", hint.Withf(fmt.Errorf("%w, nor a token ID", ErrMalformed),
			"a token ID is %d characters of a-z and 0-9: the part before the dot", IDLength)
	}
	defer t.Wipe()
	return t.ID(), nil
}

// ValidID reports whether id has the form of a token ID.
func ValidID(id string) bool { return len(id) == IDLength && plain([]byte(id)) }

// Generate makes a token from the system's random source: 31 bits of public ID
// and 82 bits of secret. It does not tell any cluster.
func Generate() (Token, error) {
	text := make([]byte, IDLength+SecretLength)
	defer clear(text)
	if err := fill(text); err != nil {
		return Token{}, fmt.Errorf("generate a bootstrap token: %w", err)
	}
	return newToken(string(text[:IDLength]), text[IDLength:]), nil
}

// fill writes characters of [0-9a-z] into text, each as likely as the others.
func fill(text []byte) error {
	const alphabet = 36
	const fair = 256 / alphabet * alphabet // bytes from here on would favour the first ones
	var buf [64]byte
	defer clear(buf[:])
	for n := 0; n < len(text); {
		if _, err := rand.Read(buf[:]); err != nil {
			return err
		}
		for _, b := range buf {
			if int(b) >= fair || n == len(text) {
				continue
			}
			text[n] = character(int(b) % alphabet)
			n++
		}
	}
	return nil
}

// character is the n-th of "0…9a…z", without a look-up that a cache could tell.
func character(n int) byte {
	letter := subtle.ConstantTimeLessOrEq(10, n)
	return byte(n + '0' + letter*('a'-'0'-10))
}

// IsZero reports whether there is no token.
func (t Token) IsZero() bool { return t.id == "" }

// ID is the public part: it names the Secret, the user and the signature.
func (t Token) ID() string { return t.id }

// Reveal is the whole token, ID.SECRET, as it goes into an Authorization header
// or to the person who will use it. The string cannot be wiped.
func (t Token) Reveal() string {
	if t.IsZero() {
		return ""
	}
	return t.id + "." + string(t.Key())
}

// Key is the secret part, the key of the signature on cluster-info. It is the
// token's own memory: read it, do not keep or change it.
func (t Token) Key() []byte {
	if t.IsZero() {
		return nil
	}
	return t.secret.bytes[:]
}

// Equal compares in constant time.
func (t Token) Equal(o Token) bool {
	return t.id == o.id && subtle.ConstantTimeCompare(t.Key(), o.Key()) == 1
}

// Wipe overwrites the secret in this token and its copies.
func (t Token) Wipe() { clear(t.Key()) }

// User is the name that a request with this bearer token has in the cluster.
func (t Token) User() string { return UserPrefix + t.id }

// String is the ID with the secret left out.
func (t Token) String() string {
	if t.IsZero() {
		return ""
	}
	return t.id + ".<redacted>"
}

// Format prints [Token.String] for every verb: %x and %#v show no secret either.
func (t Token) Format(s fmt.State, _ rune) {
	// An error here is the writer's; fmt has nowhere to report it.
	_, _ = s.Write([]byte(t.String()))
}

// LogValue keeps the secret out of structured logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText writes the redacted form: JSON and YAML hold no secret unless
// the caller puts [Token.Reveal] there.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

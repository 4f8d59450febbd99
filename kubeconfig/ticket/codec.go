package ticket

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
)

// The form of a ticket's text: KHSM1 and base32 of fields and checksum, in
// groups of five characters.
const (
	magic       = "KHSM"
	version     = '1'
	groupLength = 5
	checkLength = 4
	// maxEncoded bounds the text that is looked at.
	maxEncoded = 16 << 10
)

// The fields of a ticket, each a tag byte, a length (unsigned varint) and its
// bytes. They stand in rising order; groups and pins repeat.
const (
	fieldServer byte = iota + 1
	fieldPin
	fieldToken
	fieldExpires // Unix time, unsigned varint
	fieldUser
	fieldGroup
	fieldSigner
	fieldLifetime // seconds, unsigned varint
	fieldPolicy   // a byte
	fieldSerial
	fieldName
)

// alphabet is RFC 4648's, without padding.
func alphabet() *base32.Encoding { return base32.StdEncoding.WithPadding(base32.NoPadding) }

// Reveal is the ticket's text, token included, as it goes to the person. The
// string cannot be wiped.
func (t Ticket) Reveal() (string, error) {
	if err := t.Validate(); err != nil {
		return "", err
	}
	body := t.fields()
	defer clear(body)
	body = append(body, checksum(body)...)
	text := magic + string(version) + alphabet().EncodeToString(body)
	var grouped strings.Builder
	for i, part := range slices.Collect(slices.Chunk([]byte(text), groupLength)) {
		if i > 0 {
			grouped.WriteByte('-')
		}
		grouped.Write(part)
	}
	return grouped.String(), nil
}

// checksum is of the whole text but itself.
func checksum(body []byte) []byte {
	sum := sha256.Sum256(append([]byte{magic[0], magic[1], magic[2], magic[3], version}, body...))
	return sum[:checkLength]
}

func (t Ticket) fields() []byte {
	b := make([]byte, 0, 512)
	put := func(tag byte, value []byte) {
		if len(value) > 0 {
			b = append(b, tag)
			b = binary.AppendUvarint(b, uint64(len(value)))
			b = append(b, value...)
		}
	}
	number := func(n int64) []byte { return binary.AppendUvarint(nil, uint64(max(0, n))) }
	put(fieldServer, []byte(strings.TrimPrefix(t.Server, "https://")))
	for _, p := range t.Pins {
		put(fieldPin, p[:])
	}
	token := append([]byte(t.Token.ID()), t.Token.Key()...)
	put(fieldToken, token)
	clear(token)
	put(fieldExpires, number(t.Expires.Unix()))
	put(fieldUser, []byte(t.User))
	for _, g := range t.Groups {
		put(fieldGroup, []byte(g))
	}
	put(fieldSigner, []byte(t.Signer))
	if t.Lifetime > 0 {
		put(fieldLifetime, number(int64(t.Lifetime/time.Second)))
	}
	if t.Policy != 0 {
		put(fieldPolicy, []byte{byte(t.Policy)})
	}
	put(fieldSerial, []byte(t.Serial))
	put(fieldName, []byte(t.Name))
	return b
}

// Is reports whether text begins as a ticket does.
func Is(text []byte) bool {
	return begins(text, magic)
}

func begins(text []byte, magic string) bool {
	text = bytes.TrimSpace(text)
	return len(text) >= len(magic) && bytes.EqualFold(text[:len(magic)], []byte(magic))
}

// Begun reports whether text is the beginning of a ticket, of which more lines may follow: it
// may be no more than the upper border of a box.
func Begun(text []byte) bool {
	plain := normalise(text)
	defer clear(plain)
	if len(plain) < len(magic)+1 {
		return bytes.HasPrefix([]byte(magic), plain[:min(len(plain), len(magic))])
	}
	t, err := Parse(text)
	t.Wipe()
	return errors.Is(err, ErrChecksum)
}

// normalise takes out what does not count, such as dashes, line breaks, the borders of a box
// and a mail's signs of quoting, and repairs what is misread.
func normalise(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, c := range text {
		switch {
		case c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		case (c < 'A' || c > 'Z') && (c < '0' || c > '9'):
			continue
		}
		out = append(out, c)
	}
	for i := len(magic) + 1; i < len(out); i++ {
		switch out[i] {
		case '0':
			out[i] = 'O'
		case '1':
			out[i] = 'I'
		case '8':
			out[i] = 'B'
		}
	}
	return out
}

// Parse reads a ticket's text. Errors: [ErrMalformed], [ErrVersion],
// [ErrChecksum]. That its time is up is no error: see [Ticket.Expired]. text is
// not kept.
func Parse(text []byte) (Ticket, error) {
	if len(text) > maxEncoded {
		return Ticket{}, fmt.Errorf("%w: it is too long", ErrMalformed)
	}
	plain := normalise(text)
	defer clear(plain)
	rest, ok := bytes.CutPrefix(plain, []byte(magic))
	if !ok || len(rest) == 0 {
		return Ticket{}, hint.Withf(fmt.Errorf("%w: it does not begin with %s%c", ErrMalformed, magic, version),
			"a ticket is the text that the help desk's `kubehsm helpdesk ticket` shows")
	}
	if rest[0] != version {
		return Ticket{}, hint.Withf(ErrVersion, "check its first five characters, "+magic+string(version)+
			"; a newer kubehsm may know it")
	}
	const again = "compare it with the original, group by group; copying or scanning it is safer than typing"
	body, err := alphabet().AppendDecode(nil, rest[1:])
	defer clear(body)
	// The decoder passes over bits that a last character has too many.
	if err != nil || len(body) <= checkLength || alphabet().EncodedLen(len(body)) != len(rest)-1 {
		return Ticket{}, hint.Withf(ErrChecksum, again)
	}
	body, sum := body[:len(body)-checkLength], body[len(body)-checkLength:]
	if subtle.ConstantTimeCompare(sum, checksum(body)) != 1 {
		return Ticket{}, hint.Withf(ErrChecksum, again)
	}
	t, err := parseFields(body)
	if err != nil {
		return Ticket{}, err
	}
	if err := t.Validate(); err != nil {
		return Ticket{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return t, nil
}

// parseFields reads what a right checksum has shown to be as it was made. An
// unknown field is refused: it may be a condition.
func parseFields(b []byte) (Ticket, error) {
	var t Ticket
	bad := func(what string) (Ticket, error) { return Ticket{}, fmt.Errorf("%w: %s", ErrMalformed, what) }
	last := byte(0)
	for len(b) > 0 {
		tag := b[0]
		size, n := binary.Uvarint(b[1:])
		if n <= 0 || size == 0 || size > uint64(len(b)-1-n) {
			return bad("a field is cut off")
		}
		value := b[1+n : 1+n+int(size)]
		b = b[1+n+int(size):]
		repeats := tag == fieldPin || tag == fieldGroup
		if tag < last || tag == last && !repeats {
			return bad("its fields are out of order")
		}
		last = tag
		if err := t.set(tag, value); err != nil {
			return Ticket{}, err
		}
	}
	return t, nil
}

func (t *Ticket) set(tag byte, value []byte) error {
	number, n := binary.Uvarint(value)
	isNumber := n == len(value) && number < 1<<40
	ok := true
	switch tag {
	case fieldServer:
		t.Server = "https://" + string(value)
	case fieldPin:
		var p discovery.Pin
		ok = copy(p[:], value) == len(value) && len(value) == len(p)
		t.Pins = append(t.Pins, p)
	case fieldToken:
		if ok = len(value) == bootstraptoken.IDLength+bootstraptoken.SecretLength; ok {
			text := slices.Concat(value[:bootstraptoken.IDLength], []byte{'.'}, value[bootstraptoken.IDLength:])
			defer clear(text)
			var err error
			if t.Token, err = bootstraptoken.Parse(text); err != nil {
				return fmt.Errorf("%w: %w", ErrMalformed, err)
			}
		}
	case fieldExpires:
		ok, t.Expires = isNumber, time.Unix(int64(number), 0).UTC()
	case fieldUser:
		t.User = string(value)
	case fieldGroup:
		t.Groups = append(t.Groups, string(value))
	case fieldSigner:
		t.Signer = string(value)
	case fieldLifetime:
		ok = isNumber && number < 1<<32
		t.Lifetime = time.Duration(number) * time.Second
	case fieldPolicy:
		ok, t.Policy = len(value) == 1, Policy(value[0])
	case fieldSerial:
		t.Serial = string(value)
	case fieldName:
		t.Name = string(value)
	default:
		return hint.Withf(fmt.Errorf("%w: it has a field that this program does not know", ErrVersion),
			"a newer kubehsm may know it")
	}
	if !ok {
		return fmt.Errorf("%w: a field cannot be read", ErrMalformed)
	}
	return nil
}

package hsm

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// The URI schemes.
const (
	SchemePKCS11 = "pkcs11" // RFC 7512
	SchemePIV    = "piv"    // piv:serial=…;slot=9a
)

// maxURI bounds a token URI's length in bytes.
const maxURI = 4096

// URI names a token, or a slot on it. Empty attributes match anything.
//
// Two schemes are read: RFC 7512's "pkcs11:" and "piv:serial=…;slot=…" (also
// written "yubikey:serial=…;slot-id=…", as smallstep's tools do).
type URI struct {
	Scheme string

	// Token attributes.
	Token        string
	Manufacturer string
	Model        string
	Serial       string
	// SlotID, SlotDescription and SlotManufacturer are read for RFC 7512's
	// sake; they name a place, not a token, and are never written by kubehsm.
	SlotID           *uint64
	SlotDescription  string
	SlotManufacturer string
	// Library attributes.
	LibraryManufacturer string
	LibraryDescription  string
	LibraryVersion      string

	// Slot attributes: Object and ID for PKCS#11, Slot for PIV.
	Object string
	ID     []byte
	Type   string
	Slot   string

	// Query attributes. They say how to reach the token, not which it is.
	ModulePath string
	ModuleName string
	PINSource  string
}

// ParseURI reads a token URI. Errors wrap [ErrBadURI]; a pin-value attribute
// is refused, as a PIN has no place in arguments and files.
func ParseURI(s string) (URI, error) {
	u, err := parseURI(s)
	if err != nil {
		return URI{}, hint.With(fmt.Errorf("%w: %w", ErrBadURI, err),
			"a token URI looks like 'pkcs11:token=LABEL;serial=…' or 'piv:serial=…;slot=9a'; `kubehsm token list` shows them")
	}
	return u, nil
}

func parseURI(s string) (URI, error) {
	if len(s) > maxURI {
		return URI{}, fmt.Errorf("longer than %d bytes", maxURI)
	}
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok {
		return URI{}, fmt.Errorf("%q has no scheme", s)
	}
	u := URI{Scheme: strings.ToLower(scheme)}
	if u.Scheme == "yubikey" {
		u.Scheme = SchemePIV
	}
	if u.Scheme != SchemePKCS11 && u.Scheme != SchemePIV {
		return URI{}, fmt.Errorf("unknown scheme %q", scheme)
	}
	path, query, _ := strings.Cut(rest, "?")
	if err := attributes(path, ";", u.setPath); err != nil {
		return URI{}, err
	}
	if err := attributes(query, "&", u.setQuery); err != nil {
		return URI{}, err
	}
	return u, nil
}

// attributes calls set for each decoded name=value pair of s, once per name.
func attributes(s, sep string, set func(name, value string) error) error {
	if s == "" {
		return nil
	}
	seen := map[string]bool{}
	for _, pair := range strings.Split(s, sep) {
		name, raw, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return fmt.Errorf("%q is not name=value", pair)
		}
		if seen[name] {
			return fmt.Errorf("attribute %q is given twice", name)
		}
		seen[name] = true
		value, err := url.PathUnescape(raw)
		if err != nil {
			return fmt.Errorf("attribute %q: bad percent-encoding", name)
		}
		if err := set(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (u *URI) setPath(name, value string) error {
	if u.Scheme == SchemePIV {
		return u.setPIV(name, value)
	}
	if t := u.textAttribute(name); t != nil {
		*t = value
		return nil
	}
	switch name {
	case "id":
		if value != "" {
			u.ID = []byte(value)
		}
	case "type":
		switch value {
		case "public", "private", "cert", "secret-key", "data":
			u.Type = value
		default:
			return fmt.Errorf("unknown object type %q", value)
		}
	case "slot-id":
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return fmt.Errorf("slot-id %q is not a number", value)
		}
		u.SlotID = &n
	default: // RFC 7512 section 2.3: vendor attributes may be ignored, others not
		if !strings.HasPrefix(name, "x-") {
			return fmt.Errorf("unknown attribute %q", name)
		}
	}
	return nil
}

func (u *URI) textAttribute(name string) *string {
	switch name {
	case "token":
		return &u.Token
	case "manufacturer":
		return &u.Manufacturer
	case "model":
		return &u.Model
	case "serial":
		return &u.Serial
	case "object":
		return &u.Object
	case "slot-description":
		return &u.SlotDescription
	case "slot-manufacturer":
		return &u.SlotManufacturer
	case "library-manufacturer":
		return &u.LibraryManufacturer
	case "library-description":
		return &u.LibraryDescription
	case "library-version":
		return &u.LibraryVersion
	}
	return nil
}

func (u *URI) setPIV(name, value string) error {
	switch name {
	case "serial":
		u.Serial = value
	case "slot", "slot-id":
		v := strings.TrimPrefix(strings.ToLower(value), "0x")
		if b, err := hex.DecodeString(v); err != nil || len(b) != 1 {
			return fmt.Errorf("PIV slot %q is not two hex digits", value)
		}
		u.Slot = v
	case "model":
		u.Model = value
	default:
		return fmt.Errorf("unknown attribute %q", name)
	}
	return nil
}

func (u *URI) setQuery(name, value string) error {
	switch name {
	case "module-path":
		if !filepath.IsAbs(value) {
			return fmt.Errorf("module-path %q is not absolute", value)
		}
		u.ModulePath = value
	case "module-name":
		u.ModuleName = value
	case "pin-source":
		u.PINSource = value
	case "pin-value":
		return fmt.Errorf("pin-value would put a PIN in plain text; leave it out and type it when asked")
	default:
		if u.Scheme == SchemePIV {
			return fmt.Errorf("unknown attribute %q", name)
		}
	}
	return nil
}

// String returns the URI in its canonical form: the attributes in a fixed
// order, reserved bytes percent-encoded (RFC 7512 section 2.3).
func (u URI) String() string {
	var b strings.Builder
	b.WriteString(u.Scheme + ":")
	sep := ""
	add := func(name, value string) {
		if value != "" {
			b.WriteString(sep + name + "=" + escape(value, ""))
			sep = ";"
		}
	}
	add("token", u.Token)
	add("manufacturer", u.Manufacturer)
	add("model", u.Model)
	add("serial", u.Serial)
	if u.SlotID != nil {
		add("slot-id", strconv.FormatUint(*u.SlotID, 10))
	}
	add("slot-description", u.SlotDescription)
	add("slot-manufacturer", u.SlotManufacturer)
	add("library-manufacturer", u.LibraryManufacturer)
	add("library-description", u.LibraryDescription)
	add("library-version", u.LibraryVersion)
	add("object", u.Object)
	if len(u.ID) > 0 { // always in full percent form, as p11-kit writes it
		b.WriteString(sep + "id=")
		for _, c := range u.ID {
			fmt.Fprintf(&b, "%%%02X", c)
		}
		sep = ";"
	}
	add("type", u.Type)
	add("slot", u.Slot)
	sep = "?"
	query := func(name, value string) {
		if value != "" {
			b.WriteString(sep + name + "=" + escape(value, "/"))
			sep = "&"
		}
	}
	query("module-name", u.ModuleName)
	query("module-path", u.ModulePath)
	query("pin-source", u.PINSource)
	return b.String()
}

// escape percent-encodes all but the unreserved bytes and those that RFC 7512
// section 2.3 allows in paths and queries alike, and in extra. What means
// something to a shell within quotes is encoded all the same: labels are foreign,
// and people copy URIs into commands.
func escape(s, extra string) string {
	plain := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:[]@+," + extra
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(plain, s[i]) >= 0 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// MarshalText implements [encoding.TextMarshaler].
func (u URI) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] by [ParseURI].
func (u *URI) UnmarshalText(b []byte) (err error) {
	*u, err = ParseURI(string(b))
	return err
}

// Identity returns the part of u that tells what it names, without how that is
// reached: the library and where its PIN is kept.
func (u URI) Identity() URI {
	u.ModulePath, u.ModuleName, u.PINSource = "", "", ""
	return u
}

// TokenOnly returns u without what names a slot on the token.
func (u URI) TokenOnly() URI {
	u.Object, u.ID, u.Type, u.Slot = "", nil, "", ""
	return u
}

// MatchToken tells whether t is a token that u names: every attribute that u
// has must equal t's (RFC 7512 section 2.5).
func (u URI) MatchToken(t TokenInfo) bool {
	if u.Scheme != t.Scheme {
		return false
	}
	eq := func(want, have string) bool { return want == "" || want == have }
	ok := eq(u.Token, t.Label) && eq(u.Manufacturer, t.Manufacturer) && eq(u.Model, t.Model) &&
		eq(u.Serial, t.Serial) && eq(u.SlotDescription, t.Reader)
	if u.SlotID != nil {
		ok = ok && *u.SlotID == t.SlotID
	}
	if m := t.Module; m != nil {
		ok = ok && eq(u.LibraryManufacturer, m.Manufacturer) && eq(u.LibraryDescription, m.Description) &&
			eq(u.LibraryVersion, m.Version) && eq(u.ModuleName, m.Name) && eq(u.ModulePath, m.Path)
	}
	return ok
}

// MatchSlot tells whether the slot attributes of u fit s.
func (u URI) MatchSlot(s Slot) bool {
	if u.Scheme == SchemePIV {
		return u.Slot == "" || u.Slot == s.ID
	}
	return (u.Object == "" || u.Object == s.Label) && (len(u.ID) == 0 || hex.EncodeToString(u.ID) == s.ID)
}

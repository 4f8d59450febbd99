package hsm_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

func ptr(n uint64) *uint64 { return &n }

func TestParseURI(t *testing.T) {
	for _, c := range []struct {
		in   string
		want hsm.URI
		out  string // canonical form, "" if in is
	}{
		{"pkcs11:", hsm.URI{Scheme: "pkcs11"}, ""},
		{"pkcs11:token=a;serial=1", hsm.URI{Scheme: "pkcs11", Token: "a", Serial: "1"}, ""},
		{"PKCS11:serial=1;token=a", hsm.URI{Scheme: "pkcs11", Token: "a", Serial: "1"}, "pkcs11:token=a;serial=1"},
		{"pkcs11:token=", hsm.URI{Scheme: "pkcs11"}, "pkcs11:"},
		{"pkcs11:token=My%20Key%3B50%25%2F%C3%BC", hsm.URI{Scheme: "pkcs11", Token: "My Key;50%/ü"}, ""},
		{"pkcs11:object=k;id=%01%FFa;type=private", hsm.URI{Scheme: "pkcs11", Object: "k", ID: []byte("\x01\xffa"), Type: "private"}, "pkcs11:object=k;id=%01%FF%61;type=private"},
		{"pkcs11:slot-id=7;slot-description=r;slot-manufacturer=m", hsm.URI{Scheme: "pkcs11", SlotID: ptr(7), SlotDescription: "r", SlotManufacturer: "m"}, ""},
		{"pkcs11:library-manufacturer=a;library-description=b;library-version=1.2;x-vendor=c",
			hsm.URI{Scheme: "pkcs11", LibraryManufacturer: "a", LibraryDescription: "b", LibraryVersion: "1.2"},
			"pkcs11:library-manufacturer=a;library-description=b;library-version=1.2"},
		{"pkcs11:token=a?module-path=/usr/lib/x.so&pin-source=file:/p&x-other=1",
			hsm.URI{Scheme: "pkcs11", Token: "a", ModulePath: "/usr/lib/x.so", PINSource: "file:/p"},
			"pkcs11:token=a?module-path=/usr/lib/x.so&pin-source=file:/p"},
		{"pkcs11:?module-name=opensc", hsm.URI{Scheme: "pkcs11", ModuleName: "opensc"}, ""},
		{"piv:serial=123;slot=9a", hsm.URI{Scheme: "piv", Serial: "123", Slot: "9a"}, ""},
		{"yubikey:serial=123;slot-id=0x9C", hsm.URI{Scheme: "piv", Serial: "123", Slot: "9c"}, "piv:serial=123;slot=9c"},
	} {
		got, err := hsm.ParseURI(c.in)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.in, got, err, c.want)
			continue
		}
		want := c.out
		if want == "" {
			want = c.in
		}
		if got.String() != want {
			t.Errorf("%s is written %s, want %s", c.in, got, want)
		}
	}
}

func TestParseURIRefuses(t *testing.T) {
	for _, s := range []string{
		"", "pkcs11", "token=a", "https://example.com", "pkcs11:token", "pkcs11:=a", "pkcs11:token=a;", "pkcs11:token=a;token=b",
		"pkcs11:token=%zz", "pkcs11:slot-id=x", "pkcs11:type=door", "pkcs11:colour=red", "pkcs11:?module-path=x.so",
		"pkcs11:token=a?pin-value=1234", "piv:slot=9", "piv:slot=zz", "piv:slot=9a9a", "piv:token=a", "piv:serial=1?x=y",
		"pkcs11:token=" + strings.Repeat("a", 5000),
	} {
		u, err := hsm.ParseURI(s)
		if !errors.Is(err, hsm.ErrBadURI) || hint.Of(err) == "" {
			t.Errorf("%.40q: %+v, %v", s, u, err)
		}
		if !reflect.DeepEqual(u, hsm.URI{}) {
			t.Errorf("%.40q: refused, but gave %+v", s, u)
		}
	}
	if _, err := hsm.ParseURI("pkcs11:token=a?pin-value=4711"); strings.Contains(err.Error(), "4711") {
		t.Errorf("the error shows the PIN: %v", err)
	}
}

func TestURIMatch(t *testing.T) {
	tok := hsm.TokenInfo{
		Scheme: "pkcs11", Label: "l", Manufacturer: "m", Model: "o", Serial: "s", Reader: "r", SlotID: 3,
		Module: &hsm.Module{Name: "n", Path: "/p", Description: "d", Manufacturer: "lm", Version: "1.0"},
	}
	for _, s := range []string{
		"pkcs11:", "pkcs11:token=l", "pkcs11:token=l;manufacturer=m;model=o;serial=s", "pkcs11:slot-id=3;slot-description=r",
		"pkcs11:library-description=d;library-manufacturer=lm;library-version=1.0?module-path=/p&module-name=n", "pkcs11:token=l;object=k;id=%01",
	} {
		u, err := hsm.ParseURI(s)
		if err != nil || !u.MatchToken(tok) {
			t.Errorf("%s does not match (%v)", s, err)
		}
	}
	for _, s := range []string{
		"piv:serial=s", "pkcs11:token=L", "pkcs11:token=l;serial=x", "pkcs11:slot-id=0", "pkcs11:model=x", "pkcs11:slot-description=x",
		"pkcs11:manufacturer=x", "pkcs11:?module-path=/q", "pkcs11:?module-name=x", "pkcs11:library-version=2", "pkcs11:library-description=x",
	} {
		u, err := hsm.ParseURI(s)
		if err != nil || u.MatchToken(tok) {
			t.Errorf("%s matches (%v)", s, err)
		}
	}
	if own := tok.URI(); !own.MatchToken(tok) || own.SlotID != nil {
		t.Errorf("the token's own URI: %s", own)
	}
	slot := hsm.Slot{ID: "01ff", Label: "k"}
	for s, want := range map[string]bool{
		"pkcs11:": true, "pkcs11:object=k": true, "pkcs11:id=%01%ff": true, "pkcs11:object=k;id=%01%FF": true,
		"pkcs11:object=x": false, "pkcs11:id=%01": false, "pkcs11:object=k;id=%02": false, "piv:slot=9a": false, "piv:": true,
	} {
		u, err := hsm.ParseURI(s)
		if err != nil || u.MatchSlot(slot) != want {
			t.Errorf("%s: match %v, want %v (%v)", s, !want, want, err)
		}
	}
}

func TestTokenOnly(t *testing.T) {
	u, err := hsm.ParseURI("pkcs11:token=l;serial=s;object=k;id=%01;type=cert?module-path=/p")
	must.OK(t, err)
	if got := u.TokenOnly().String(); got != "pkcs11:token=l;serial=s?module-path=/p" {
		t.Error(got)
	}
	if u.Object != "k" || len(u.ID) != 1 {
		t.Error("TokenOnly changed its receiver")
	}
}

func TestURIJSON(t *testing.T) {
	type record struct{ Key hsm.URI }
	in := record{hsm.URI{Scheme: "piv", Serial: "1", Slot: "9a"}}
	b, err := json.Marshal(in)
	if err != nil || string(b) != `{"Key":"piv:serial=1;slot=9a"}` {
		t.Fatalf("%s, %v", b, err)
	}
	var out record
	if err := json.Unmarshal(b, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%+v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"Key":"nonsense"}`), &out); !errors.Is(err, hsm.ErrBadURI) {
		t.Errorf("error %v", err)
	}
}

func FuzzParseURI(f *testing.F) {
	for _, s := range []string{
		"pkcs11:token=My%20Key;object=k;id=%01%FF?module-path=/usr/lib/x.so&pin-source=a", "piv:serial=1;slot=9a", "yubikey:slot-id=0x9a",
		"pkcs11:slot-id=18446744073709551615", "pkcs11:x-a=b;token=%00", "pkcs11:token=a'$(id)'!*", "pkcs11:token=a;;", "piv:slot=",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := hsm.ParseURI(s)
		if err != nil {
			if !errors.Is(err, hsm.ErrBadURI) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		canonical := u.String()
		if len(canonical) > 4096 { // escaping may lengthen it beyond what is read
			return
		}
		again, err := hsm.ParseURI(canonical)
		if err != nil {
			t.Fatalf("%q is written %q: %v", s, canonical, err)
		}
		if !reflect.DeepEqual(u, again) || again.String() != canonical {
			t.Fatalf("%q: %+v, read back %+v", s, u, again)
		}
		for i := range len(canonical) {
			if c := canonical[i]; c <= ' ' || c > '~' || strings.IndexByte("'\"`$()!\\*|<>", c) >= 0 { // nor what a shell reads
				t.Fatalf("%q is written with byte %#x", s, c)
			}
		}
	})
}

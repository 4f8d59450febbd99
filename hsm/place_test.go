package hsm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// by is a token of a maker, reached by a library.
func by(maker, path string) hsm.TokenInfo {
	return hsm.TokenInfo{Scheme: hsm.SchemePKCS11, Manufacturer: maker, Module: &hsm.Module{Path: path}}
}

// kinds are tokens of every sort that people have.
var kinds = map[string]hsm.TokenInfo{
	"PIV card":           {Scheme: hsm.SchemePIV, Serial: "12345678", Manufacturer: "Yubico"},
	"PIV card by OpenSC": by("piv_II", "/usr/lib/opensc-pkcs11.so"),
	"USB token":          by("Maker", "/usr/lib/libeTPkcs11.so"),
	"unknown library":    by("Maker", "/opt/lib/own.so"),
	"SoftHSM":            {Scheme: hsm.SchemePKCS11, Manufacturer: "SoftHSM project", Label: "soft"},
	"TPM":                by("", "/usr/lib/libtpm2_pkcs11.so.1"),
	"openCryptoki":       by("", "/usr/lib/libopencryptoki.so"),
	"network HSM":        by("", "/opt/luna/libCryptoki2_64.so"),
	"forwarded":          by("", "/usr/lib/pkcs11/p11-kit-client.so"),
	"Luna on Windows":    by("", "cryptoki.dll"),
}

// TestHintsFitTheToken: what is said of a token that is away, blocked or without a PIN is
// of its kind: nobody plugs a network HSM in, and no PIV card has an SO PIN.
func TestHintsFitTheToken(t *testing.T) {
	says := func(kind, what, text string, want, never []string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s, %s: %q lacks %q", kind, what, text, w)
			}
		}
		for _, n := range never {
			if strings.Contains(text, n) {
				t.Errorf("%s, %s: %q speaks of %q", kind, what, text, n)
			}
		}
	}
	plug, remote := []string{"plug", "reader"}, []string{"network", "service"}
	for _, c := range []struct {
		kind, absent string
		back         []string // hint about an absent token
		not          []string
		blocked      string
		notBlocked   []string
	}{
		{"PIV card", "not plugged in", []string{"plug it in"}, remote, "with the PUK", []string{"SO PIN"}},
		{"PIV card by OpenSC", "not plugged in", []string{"plug it in"}, remote, "with the PUK", []string{"SO PIN"}},
		{"USB token", "not plugged in", []string{"plug it in"}, remote, "with the SO PIN", []string{"PUK"}},
		{"unknown library", "not there", []string{"plug it in", "a service", "the network"}, nil, "with the SO PIN",
			[]string{"PUK"}},
		{"SoftHSM", "not there", []string{"SOFTHSM2_CONF"}, append(plug, "network"), "with the SO PIN", []string{"PUK"}},
		{"TPM", "not there", []string{"/dev/tpmrm0"}, append(plug, "network"), "tpm2_dictionarylockout",
			[]string{"PUK", "SO PIN"}},
		{"openCryptoki", "not reached", []string{"pkcsslotd"}, append(plug, "network"), "with the SO PIN", []string{"PUK"}},
		{"network HSM", "not reached", []string{"the HSM is up"}, plug, "with the SO PIN", []string{"PUK"}},
		{"Luna on Windows", "not reached", []string{"the HSM is up"}, plug, "with the SO PIN", []string{"PUK"}},
		{"forwarded", "not forwarded", []string{"p11-kit server", "other machine"}, plug, "with the SO PIN", []string{"PUK"}},
	} {
		info := kinds[c.kind]
		says(c.kind, "absent", info.Place().Absent(), []string{c.absent}, nil)
		says(c.kind, "absent", info.URI().Place().Missing(), append(c.back, "kubehsm token list"), c.not)
		says(c.kind, "does not work", info.Place().Again(), nil, c.not)
		pin := hsm.UserPIN
		if info.Scheme == hsm.SchemePIV {
			pin = hsm.PIVPIN
		}
		info.PIN = hsm.PINState{Locked: true}
		ask := func(kind hsm.PINKind, answers ...hsmtest.Answer) error {
			return hsm.AskPIN(t.Context(), hsmtest.NewScript(t, answers...), kind,
				func() (hsm.TokenInfo, error) { return info, nil },
				func(*hsm.Secret) error { return &hsm.PINError{Kind: kind, Retries: 0} })
		}
		says(c.kind, "blocked", hint.Of(ask(pin)), []string{c.blocked}, c.notBlocked)
		if err := ask(hsm.PUK); !errors.Is(err, hsm.ErrPINLocked) {
			t.Error(err)
		} else {
			says(c.kind, "blocked PUK", err.Error(), []string{"the PUK is blocked"}, []string{" PIN "})
		}
		says(c.kind, "blocked SO PIN", ask(hsm.SOPIN).Error(), []string{"the SO PIN of token", "is blocked"},
			[]string{"the PIN"})
		info.PIN = hsm.PINState{Retries: 3}
		if info.Place() != hsm.InTPM && !strings.Contains(c.kind, "OpenSC") {
			says(c.kind, "wrong, and blocked now", hint.Of(ask(pin, hsmtest.PIN("123456"))), []string{c.blocked}, c.notBlocked)
		}
		info.PIN = hsm.PINState{Retries: -1}
		for _, secret := range []hsm.PINKind{hsm.ManagementKey, hsm.PUK, hsm.SOPIN, pin} {
			empty := ask(secret, hsmtest.PIN(""), hsmtest.PIN(""), hsmtest.PIN(""))
			said := string(secret)
			if secret == hsm.PIVPIN {
				said = string(hsm.UserPIN)
			}
			if want := "not a usable " + said + ": it is empty"; empty.Error() != want || !errors.Is(empty, hsm.ErrPINInvalid) {
				t.Errorf("%s, empty: %q, want %q", c.kind, empty, want)
			}
		}
	}
}

// TestShortSerial: of a long serial its end is enough, as long as it fits no other token.
func TestShortSerial(t *testing.T) {
	const long = "5f4dcc3b5aa765d61d8327deb882cf99"
	other := func(serial string) hsm.TokenInfo { return hsm.TokenInfo{Scheme: hsm.SchemePIV, Serial: serial} }
	for _, c := range []struct {
		serial string
		others []hsm.TokenInfo
		want   string
	}{
		{"12345678", nil, "12345678"}, {long, nil, "b882cf99"}, {long, []hsm.TokenInfo{other(long), other("1")}, "b882cf99"},
		{long, []hsm.TokenInfo{other("000000000000000000000007eb882cf99")}, "deb882cf99"},
		{long, []hsm.TokenInfo{other("0" + long)}, long}, {"", nil, ""},
		{long, []hsm.TokenInfo{{Scheme: hsm.SchemePKCS11, Serial: long, Label: "the same serial"}}, long},
	} {
		if got := other(c.serial).ShortSerial(c.others); got != c.want {
			t.Errorf("%s among %d others: %q, want %q", c.serial, len(c.others), got, c.want)
		}
	}
	p := hsm.ConfirmPrompt{Type: long, Short: "b882cf99"}
	for typed, yes := range map[string]bool{long: true, "b882cf99": true, "82cf99": false, "": false, "B882CF99": false} {
		if p.Accepts(typed) != yes {
			t.Errorf("%q: %v", typed, !yes)
		}
	}
	if (hsm.ConfirmPrompt{}).Accepts("") || (hsm.ConfirmPrompt{Type: long}).Accepts("b882cf99") {
		t.Error("accepted what was not asked for")
	}
}

// TestHungLibrary: a library that hangs or crashes has one hint wherever it is said: it fits
// the place of its tokens and ends with how the library is left out.
func TestHungLibrary(t *testing.T) {
	for path, want := range map[string]string{
		"":                               "restart the service",
		"/usr/lib/opensc-pkcs11.so":      "pcscd",
		"/usr/lib/libCryptoki2.so":       "HSM is up",
		"/usr/lib/p11-kit-client.so":     "p11-kit server",
		"/usr/lib/somebody-else.so":      "connection to its tokens",
		"/usr/lib/softhsm/libsofthsm.so": "SOFTHSM2_CONF",
	} {
		if got := hsm.Hung(path); !strings.Contains(got, want) || (path != "") != strings.Contains(got, "disable-in: kubehsm") {
			t.Errorf("%s: %s", path, got)
		}
		if got := hsm.Crashed(path); path != "" && !strings.Contains(got, "update or repair the library; to stop") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

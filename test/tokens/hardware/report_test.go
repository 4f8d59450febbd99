//go:build cgo

package hardware

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// tokenVar names the token to be examined.
const tokenVar = "KUBEHSM_HARDWARE"

func TestMain(m *testing.M) {
	if os.Getenv(tokenVar) != "" {
		os.Exit(m.Run()) // on this machine's own readers
	}
	os.Exit(vcard.Main(m))
}

// tells writes a report, and fails t unless the file has these results and none of secret.
func tells(t *testing.T, r tokens.Report, want map[string]hsmtest.Result, secret ...string) {
	t.Helper()
	surroundings(t.Context(), &r)
	path, err := r.Save(t.TempDir())
	must.OK(t, err)
	text, err := os.ReadFile(path)
	must.OK(t, err)
	var again tokens.Report
	if err := json.Unmarshal(text, &again); err != nil || again.System == "" || again.Library == "" {
		t.Errorf("%v: %s", err, text)
	}
	has := map[string]hsmtest.Result{}
	for _, c := range again.Seen {
		has[c.Name] = c.Result
	}
	for a, result := range again.Can {
		has[string(a)] = result
	}
	for name, result := range want {
		if has[name] != result {
			t.Errorf("%s: %q, not %q", name, has[name], result)
		}
	}
	for _, s := range secret {
		if strings.Contains(string(text), s) {
			t.Errorf("%q is in the report", s)
		}
	}
}

// changes are the instructions that write to a card, spend a try or use a key.
const changes = "\x20\x24\x2c\x47\x87\xdb\xf6\xfa\xfb\xfe\xff"

// TestCardReport: the check of a card that is in use sends no command that changes
// anything, and the suite runs on nothing that was not named by its whole serial.
func TestCardReport(t *testing.T) {
	const serial = 12345678
	lab := vcard.ForTest(t)
	card := vcard.New(vcard.Config{Serial: serial, Firmware: [3]byte{5, 4, 3}})
	lab.Insert(t, 0, card)
	d := piv.New(piv.Options{})
	t.Cleanup(func() { d.Close() })
	tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePIV})
	must.OK(t, err)
	p := hsmtest.Typing(t, vcard.DefaultPIN)
	if _, err := tok.Generate(t.Context(), hsm.GenerateOptions{Slot: "9c"}, p); err != nil {
		t.Fatal(err)
	}
	must.OK(t, tok.Close())
	info, err := one(t.Context(), hsm.Drivers{d}, hsm.URI{})
	must.OK(t, err)
	began := len(card.Log())
	r := tokens.NewReport(tokens.CheckRun, info, time.Now())
	if r.Seen, err = examine(t.Context(), d, info.URI()); err != nil || r.Failed() {
		t.Errorf("%+v, %v", r.Seen, err)
	}
	for _, e := range card.Log()[began:] {
		if strings.IndexByte(changes, e.INS) >= 0 && e.SW == 0x9000 && e.Length > 0 {
			t.Errorf("the check sent %+v", e)
		}
	}
	if r.Token != "Yubico YubiKey 5" || r.Firmware != "5.4.3" || r.Serial != "…5678" {
		t.Errorf("%+v", r)
	}
	tells(t, r, map[string]hsmtest.Result{"Attests a key that it made": hsmtest.Can, "Says that it can: Reset": hsmtest.Can},
		"12345678", "9c")
	for _, typed := range []string{"", "5678", "…5678", "12345679", "12345678 "} {
		if mayErase(info, typed) == nil {
			t.Errorf("ERASE=%q would erase it", typed)
		}
	}
	if info.Serial = ""; mayErase(info, "") == nil {
		t.Error("a token without a serial would be erased")
	}
}

// TestSuiteOnCards: cards that can be reset are, before each part, and are as new at the
// end, whatever their identity is then.
func TestSuiteOnCards(t *testing.T) {
	for name, config := range map[string]vcard.Config{
		"5.4.3": {Firmware: [3]byte{5, 4, 3}},
		"no serial": {Firmware: [3]byte{5, 4, 3}, CHUID: &[16]byte{1}, Without: vcard.Serial | vcard.Attestation,
			Ways: vcard.Ways{NewCHUID: true}},
	} {
		t.Run(name, func(t *testing.T) {
			lab := vcard.ForTest(t)
			card := vcard.New(config)
			lab.Insert(t, 0, card)
			card.SetPIN("99887766")
			d := piv.New(piv.Options{})
			t.Cleanup(func() { d.Close() })
			info, err := one(t.Context(), hsm.Drivers{d}, hsm.URI{})
			must.OK(t, err)
			must.OK(t, mayErase(info, info.Serial))
			results := suite(t, d, info, func() secrets { t.Error("asked for secrets"); return secrets{} })
			if !results.Complete || results.Parts["UnlockLastTry"] != hsmtest.Can {
				t.Errorf("results %+v", results)
			}
			r := tokens.NewReport(tokens.SuiteRun, info, time.Now())
			r.Add(results)
			tells(t, r, map[string]hsmtest.Result{"UnlockLastTry": hsmtest.Can, "Delete": hsmtest.Cannot,
				"ecdsa-p384": hsmtest.Can, "ed25519": hsmtest.Cannot, "Unplug": hsmtest.Untested}, info.Serial)
			if pin, _ := card.PINRetries(); pin != 3 || !card.CheckPIN(vcard.DefaultPIN) || card.Public(0x9a) != nil {
				t.Error("the card is not as new")
			}
		})
	}
}

// TestSoftHSMReport: both runs on a token of a library.
func TestSoftHSMReport(t *testing.T) {
	const pin = "73916402"
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: "my own label", PIN: pin})
	d := pkcs11.New(pkcs11.Options{Modules: []pkcs11.Module{{Path: soft.Module, Env: soft.Env()}}, LockDir: t.TempDir()})
	t.Cleanup(func() { d.Close() })
	info, err := one(t.Context(), hsm.Drivers{d}, hsm.URI{})
	must.OK(t, err)
	r := tokens.NewReport(tokens.CheckRun, info, time.Now())
	if r.Seen, err = examine(t.Context(), d, info.URI()); err != nil || r.Failed() {
		t.Errorf("%+v, %v", r.Seen, err)
	}
	if !strings.Contains(r.Token, "SoftHSM v2") || r.Driver != "pkcs11: libsofthsm2.so" {
		t.Errorf("%+v", r)
	}
	tells(t, r, map[string]hsmtest.Result{"Attests a key that it made": hsmtest.Cannot}, "my own label", info.Serial)
	holding(t, d, info, pin)
	results := suite(t, d, info, func() secrets { return secrets{pin: pin} })
	if !results.Complete || results.Parts["Unlock"] != hsmtest.Untested || results.Parts["Delete"] != hsmtest.Can {
		t.Errorf("results %+v", results)
	}
	r = tokens.NewReport(tokens.SuiteRun, info, time.Now())
	r.Add(results)
	tells(t, r, map[string]hsmtest.Result{"Sign": hsmtest.Can, "Unlock": hsmtest.Untested, "rsa-2048": hsmtest.Can},
		"my own label", info.Serial)
}

// holding: a token that holds a key is not empty.
func holding(t *testing.T, d hsm.Driver, info hsm.TokenInfo, pin string) {
	t.Helper()
	tok, err := d.Open(t.Context(), info.URI())
	must.OK(t, err)
	defer tok.Close()
	p := hsmtest.Typing(t, pin)
	if _, err := tok.Generate(t.Context(), hsm.GenerateOptions{}, p); err != nil {
		t.Fatal(err)
	}
	if empty(t.Context(), tok) == nil {
		t.Error("a token with a key passes for empty")
	}
	must.OK(t, errors.Join(clean(t.Context(), d, info.URI(), p), tok.Lock()))
}

//go:build cgo

package hardware

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/ui/text"
)

// subject returns the token and, for PIV, three retired slots that are empty.
func subject(t *testing.T, d hsm.Driver, u hsm.URI) (hsm.TokenInfo, []string) {
	t.Helper()
	tok, err := d.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	info, err := tok.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != hsm.SchemePIV {
		return info, nil
	}
	all, err := tok.Slots(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, s := range all {
		taken[s.ID] = taken[s.ID] || occupied(s)
	}
	var free []string
	for n := 0x95; n >= 0x82 && len(free) < 3; n-- {
		if id := fmt.Sprintf("%x", n); !taken[id] {
			free = append(free, id)
		}
	}
	if len(free) < 3 {
		t.Fatalf("only %d retired slots are empty, three are needed", len(free))
	}
	return info, free
}

// check runs the suite behind the guard.
func check(t *testing.T, d hsm.Driver, info hsm.TokenInfo, slots []string, algorithms []hsm.Algorithm, pin, management string) hsmtest.Results {
	g := newGuard(d, slots)
	others := map[hsm.PINKind]string{}
	if management != "" {
		others[hsm.ManagementKey] = management
	}
	secrets := map[hsm.PINKind]string{hsm.UserPIN: pin, hsm.PIVPIN: pin, hsm.ManagementKey: management}
	return hsmtest.Run(t, hsmtest.Fixture{
		Algorithms: algorithms, NoGuessing: true, NoDelete: info.Scheme == hsm.SchemePIV && !deletes(info.Firmware),
		New: func(t *testing.T) hsmtest.Device {
			t.Cleanup(func() {
				if err := g.clean(context.Background(), info.URI(), hsmtest.TypingAll(t, secrets)); err != nil {
					t.Errorf("remove the keys of this check: %v", err)
				}
			})
			tok, err := d.Open(t.Context(), info.URI())
			if err != nil {
				t.Fatal(err)
			}
			defer tok.Close()
			if err := tok.Lock(); err != nil {
				t.Fatal(err)
			}
			return hsmtest.Device{Driver: g, Token: info.URI(), PIN: pin, WrongPIN: "", Others: others, Slots: slots}
		},
	})
}

// deletes tells whether a YubiKey's firmware can delete keys: 5.7 and later.
func deletes(firmware string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(firmware, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 7
}

func listed(slots []string) string { return strings.Join(slots, ", ") }

// TestHardware is `make hardware-check`: a person, a terminal, a token.
func TestHardware(t *testing.T) {
	name := os.Getenv(tokenVar)
	if name == "" {
		t.Skip("needs a person with a token: make hardware-check TOKEN='piv:serial=...'")
	}
	u, err := hsm.ParseURI(name)
	if err != nil {
		t.Fatal(err)
	}
	var d hsm.Driver = piv.New(piv.Options{})
	if u.Scheme == hsm.SchemePKCS11 {
		d = pkcs11.New(pkcs11.Options{Discover: true, LockDir: filepath.Join(t.TempDir(), "lock")})
	}
	t.Cleanup(func() { d.Close() })
	info, slots := subject(t, d, u)
	root, err := tokens.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := tokens.Path(root, tokens.Physical, slug(info))
	if _, err := os.Stat(path); err == nil {
		t.Fatalf("%s is there already; remove it to check such a token again", path)
	}
	if n := info.PIN.Retries; info.PIN.Locked || info.PIN.Final || n >= 0 && n < 3 {
		t.Fatalf("the token has too few PIN tries left (%d): use it with its right PIN first", n)
	}
	pin, management := consent(t, info, slots)
	verify(t, d, info, pin)
	algorithms := []hsm.Algorithm{hsm.ECDSAP256, hsm.RSA2048}
	if u.Scheme == hsm.SchemePIV {
		algorithms = append(algorithms, hsm.ECDSAP384)
		if deletes(info.Firmware) {
			algorithms = append(algorithms, hsm.Ed25519)
		}
	}
	r := check(t, d, info, slots, algorithms, pin, management)
	if !r.Complete {
		t.Fatal("not recorded: the token did not keep the contract, see above")
	}
	record(t, path, info, r)
}

// consent says what will happen, has the serial typed, and asks for the secrets.
func consent(t *testing.T, info hsm.TokenInfo, slots []string) (pin, management string) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("no terminal to ask on: %v", err)
	}
	defer tty.Close()
	fmt.Fprintf(tty, "\nToken %s, serial %s, firmware %s.\n", text.Clean(info.Name()), text.Clean(info.Serial), text.Clean(info.Firmware))
	fmt.Fprintln(tty, "Keys will be made, used and deleted; nothing that is on the token is touched, no wrong PIN is typed.")
	if slots != nil {
		fmt.Fprintf(tty, "They go into the retired slots %s, which look empty. (A card before firmware 5.3 cannot\n"+
			"tell of an imported key without certificate there; before 5.7 it cannot delete: the last keys stay.)\n", listed(slots))
	}
	fmt.Fprintf(tty, "Type the token's serial to go on: ")
	line, err := bufio.NewReader(tty).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != info.Serial {
		t.Fatal("that is not its serial: nothing was done")
	}
	ask := func(what string) string {
		fmt.Fprintf(tty, "%s: ", what)
		b, err := term.ReadPassword(int(tty.Fd()))
		fmt.Fprintln(tty)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	pin = ask("PIN")
	if slots != nil {
		management = ask("Management key in hex (empty: the factory's, or protected by the PIN)")
	}
	return pin, management
}

// verify tries the PIN once, so that a mistyped one is not typed on and on by
// the suite.
func verify(t *testing.T, d hsm.Driver, info hsm.TokenInfo, pin string) {
	t.Helper()
	tok, err := d.Open(t.Context(), info.URI())
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	if err := tok.Unlock(t.Context(), hsmtest.NewScript(t, hsmtest.PIN(pin))); err != nil {
		t.Fatalf("the PIN was refused; nothing else was done: %v", err)
	}
	if err := tok.Lock(); err != nil {
		t.Fatal(err)
	}
}

var unfit = regexp.MustCompile(`[^a-z0-9.]+`)

// slug names a kind of token, without its serial.
func slug(info hsm.TokenInfo) string {
	return strings.Trim(unfit.ReplaceAllString(strings.ToLower(info.Scheme+" "+info.Manufacturer+" "+info.Model+" "+info.Firmware), "-"), "-.")
}

func record(t *testing.T, path string, info hsm.TokenInfo, r hsmtest.Results) {
	driver := info.Scheme
	if info.Module != nil {
		driver += ": " + filepath.Base(info.Module.Path)
	}
	b, err := json.MarshalIndent(tokens.NewColumn(info.Manufacturer+" "+info.Model+" "+info.Firmware, driver, r), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("recorded in %s", path)
}

//go:build cgo && hardware

package hardware

import (
	"bufio"
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

// TestHardware is `make hardware-check`: a person, a terminal, a token.
func TestHardware(t *testing.T) {
	name := os.Getenv(tokenVar)
	if name == "" {
		t.Fatal("name the token: make hardware-check TOKEN='piv:serial=...'")
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
	fmt.Fprintf(tty, "\nToken %s, serial %s, firmware %s.\n", text.Clean(info.Name()), text.Clean(info.Serial),
		text.Clean(info.Firmware))
	fmt.Fprintln(tty,
		"Keys will be made, used and deleted; nothing that is on the token is touched, no wrong PIN is typed.")
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
	return strings.Trim(unfit.ReplaceAllString(strings.ToLower(info.Scheme+" "+info.Manufacturer+" "+info.Model+" "+
		info.Firmware), "-"), "-.")
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

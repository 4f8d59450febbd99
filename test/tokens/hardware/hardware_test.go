//go:build cgo && hardware

package hardware

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/ui/text"
)

// The variables that the targets of the Makefile set.
const (
	anyToken   = "any" // the value of tokenVar for the only one that there is
	eraseVar   = "KUBEHSM_ERASE"
	reportsVar = "KUBEHSM_REPORTS"
)

// named returns the token that the environment names, and its driver.
func named(t *testing.T) (hsm.Driver, hsm.TokenInfo) {
	t.Helper()
	drivers := hsm.Drivers{piv.New(piv.Options{}),
		pkcs11.New(pkcs11.Options{Discover: true, LockDir: filepath.Join(t.TempDir(), "lock")})}
	t.Cleanup(func() { drivers.Close() })
	var u hsm.URI
	if name := os.Getenv(tokenVar); name != anyToken {
		var err error
		if u, err = hsm.ParseURI(name); err != nil {
			t.Fatal(err)
		}
	}
	info, err := one(t.Context(), drivers, u)
	must.OK(t, err)
	for _, d := range drivers {
		if d.Scheme() == info.Scheme {
			return d, info
		}
	}
	t.Fatal("no driver") // Never: the token was listed by one of them.
	return nil, info
}

// save writes the report and says where.
func save(t *testing.T, r tokens.Report) {
	t.Helper()
	surroundings(t.Context(), &r)
	path, err := r.Save(os.Getenv(reportsVar))
	must.OK(t, err)
	t.Logf("the report: %s", path)
}

// TestCheck is `make hardware-check`.
func TestCheck(t *testing.T) {
	d, info := named(t)
	r := tokens.NewReport(tokens.CheckRun, info, time.Now())
	var err error
	if r.Seen, err = examine(t.Context(), d, info.URI()); err != nil {
		t.Fatal(err)
	}
	save(t, r)
	if r.Failed() {
		t.Error("a contract was not kept: see the report")
	}
}

// TestSuite is `make hardware-suite`.
func TestSuite(t *testing.T) {
	d, info := named(t)
	must.OK(t, mayErase(info, os.Getenv(eraseVar)))
	r := tokens.NewReport(tokens.SuiteRun, info, time.Now())
	r.Add(suite(t, d, info, func() secrets { return ask(t, info) }))
	save(t, r)
}

// ask has the secrets of a token typed that is not reset.
func ask(t *testing.T, info hsm.TokenInfo) (s secrets) {
	t.Helper()
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("no terminal to ask on: %v", err)
	}
	defer tty.Close()
	fmt.Fprintf(tty, "\nToken %s, serial %s: if it holds no key and no certificate, keys are made, used and deleted.\n",
		text.Clean(info.Name()), text.Clean(info.Serial))
	typed := func(what string) string {
		fmt.Fprintf(tty, "%s: ", what)
		b, err := term.ReadPassword(int(tty.Fd()))
		fmt.Fprintln(tty)
		must.OK(t, err)
		return string(b)
	}
	s.pin = typed("PIN")
	if info.Kind().HasSlots() {
		s.management = typed("Management key in hex (empty: the default one, or protected by the PIN)")
	}
	return s
}

//go:build linux && cgo

package administer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// pinSource configures the PIN of the card of that serial.
func (d *desk) pinSource(source string) {
	d.t.Helper()
	config := fmt.Sprintf("pinSources:\n- token: 'piv:serial=12345678'\n  source: '%s'\n", source)
	must.OK(d.t, os.WriteFile(filepath.Join(d.home, "config.yaml"), []byte(config), 0o600))
}

func (d *desk) pinFile(pin string) string {
	d.t.Helper()
	path := filepath.Join(d.home, "pin")
	must.OK(d.t, os.WriteFile(path, []byte(pin+"\n"), 0o600))
	return path
}

// TestPINSource: without a terminal the PIN comes from where the configuration
// says, and only from there; a wrong one costs one try, however often a pipeline
// runs.
func TestPINSource(t *testing.T) {
	d := newDesk(t, vcard.Config{})
	d.ok("token", "management-key", "set", "--protect", "--pin-fd", d.fd(vcard.DefaultPIN))
	generate := func(more ...string) []string {
		return append([]string{"key", "generate", "--slot", "9a", "--token"}, more...)
	}
	d.fails(2, "has slots and no labels", "key", "generate", "--label", "prod", "--slot", "9a")
	path := d.pinFile(vcard.DefaultPIN)
	// A URI alone names none.
	d.fails(5, "no terminal", generate("piv:serial=12345678")...)
	d.fails(1, "config.yaml does not list it", generate("piv:serial=12345678?pin-source=file:"+path)...)

	d.pinSource("file:" + path)
	if out := d.ok(generate("piv:serial=12345678?pin-source=file:" + path)...); !strings.Contains(out, "slot=9a") {
		t.Errorf("%s", out)
	}
	d.fails(1, "config.yaml does not list it", "key", "list", "--token", "piv:serial=12345678?pin-source=/etc/passwd")

	d.pinFile("654321")
	d.fails(4, "wrong PIV PIN: 2 tries left", append(generate("piv:serial=12345678"), "--slot", "9c")...)
	for range 3 {
		d.fails(5, "counts wrong PINs", append(generate("piv:serial=12345678"), "--slot", "9c")...)
	}
	if left, _ := d.card.PINRetries(); left != 2 {
		t.Fatalf("%d tries left of 3", left)
	}
	// The right one is put there, but a person must first show that it is right.
	d.pinFile(vcard.DefaultPIN)
	d.fails(5, "counts wrong PINs", append(generate("piv:serial=12345678"), "--slot", "9c")...)
	d.ok(append(generate("piv:serial=12345678"), "--slot", "9c", "--pin-fd", d.fd(vcard.DefaultPIN))...)
	d.ok(append(generate("piv:serial=12345678"), "--slot", "9d")...)
	must.OK(t, os.Chmod(path, 0o644))
	d.fails(5, "has mode 0644", append(generate("piv:serial=12345678"), "--slot", "82")...)
	d.pinSource("file:relative")
	d.fails(1, "config.yaml: pinSources[0]", "token", "info")
}

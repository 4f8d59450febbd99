//go:build linux && cgo

package modules

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	p11 "github.com/miekg/pkcs11"
	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/p11server"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/test/vcard"
)

const (
	ockDefaultSO = "87654321" // openCryptoki's, until it is changed
	ockSO        = "12121212"
	ockFirst     = "24681357" // the security officer's PIN for the user, who must change it
	ockPIN       = "135790"
	ockLabel     = "openCryptoki test"
)

// openCryptoki starts pkcsslotd with its software token in folders of its own
// and returns the module.
func openCryptoki(t *testing.T) string {
	t.Helper()
	vcard.Private(t)
	slotd := need.File(t, "/usr/sbin/pkcsslotd")
	module := p11server.Library(t, "opencryptoki/libopencryptoki.so.0")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	// It wants a group, which is the one of this namespace's only user.
	overlay(t, write("group", "root:x:0:\npkcs11:x:0:root\n"), "/etc/group")
	overlay(t, write("conf", "version opencryptoki-3.1\nslot 3\n{\nstdll = libpkcs11_sw.so\n}\n"),
		"/etc/opencryptoki/opencryptoki.conf")
	overlay(t, "", "/var/lib/opencryptoki")
	for _, name := range []string{"/var/lib/opencryptoki/swtok/TOK_OBJ", "/run/lock/opencryptoki/swtok"} {
		must.OK(t, os.MkdirAll(name, 0o770))
	}
	t.Cleanup(func() { // a daemon that ends leaves its socket
		if err := os.Remove("/run/pkcsslotd.socket"); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	daemon(t, func() bool { return listens(t, "/run/pkcsslotd.socket") }, slotd, "-f")
	return module
}

// listens tells whether a socket takes clients (proc_net(5), unix): its file is
// there a moment before, perhaps by its older name in /var/run. To connect would
// not do: this daemon counts its clients.
func listens(t *testing.T, socket string) bool {
	b, err := os.ReadFile("/proc/net/unix")
	must.OK(t, err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 8 && strings.HasSuffix(f[7], socket) && f[3] == "00010000" { // __SO_ACCEPTCON
			return true
		}
	}
	return false
}

// overlay mounts a file over another, or an empty folder if file is "".
func overlay(t *testing.T, file, at string) {
	t.Helper()
	err := unix.Mount(file, at, "", unix.MS_BIND, "")
	if file == "" {
		err = unix.Mount("tmpfs", at, "tmpfs", 0, "mode=770")
	}
	if err != nil {
		t.Fatalf("mount over %s: %v", at, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// blankToken returns a module with a token whose PINs need no change.
func blankToken(t *testing.T) string {
	module := openCryptoki(t)
	library(t, module, func(c *p11.Ctx, must func(error)) {
		slots, err := c.GetSlotList(true)
		must(err)
		must(c.InitToken(slots[0], ockDefaultSO, ockLabel))
		loggedIn(c, must, slots[0], p11.CKU_SO, ockDefaultSO, func(sh p11.SessionHandle) {
			must(c.SetPIN(sh, ockDefaultSO, ockSO))
			must(c.InitPIN(sh, ockFirst))
		})
		loggedIn(c, must, slots[0], p11.CKU_USER, ockFirst, func(sh p11.SessionHandle) {
			must(c.SetPIN(sh, ockFirst, ockPIN))
		})
	})
	return module
}

// library does something with a library, beside the driver.
func library(t *testing.T, path string, do func(c *p11.Ctx, must func(error)), o ...p11.InitializeOption) {
	t.Helper()
	c := p11.New(path)
	if c == nil {
		t.Fatalf("%s cannot be loaded", path)
	}
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	must(c.Initialize(o...))
	defer func() { must(c.Finalize()) }()
	do(c, must)
}

func loggedIn(c *p11.Ctx, must func(error), slot, who uint, pin string, do func(p11.SessionHandle)) {
	sh, err := c.OpenSession(slot, p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
	must(err)
	must(c.Login(sh, who, pin))
	do(sh)
	must(c.Logout(sh))
	must(c.CloseSession(sh))
}

func TestOpenCryptoki(t *testing.T) {
	r := hsmtest.Run(t, hsmtest.Fixture{
		Algorithms: []hsm.Algorithm{hsm.RSA2048},
		Slow:       []hsm.Algorithm{hsm.RSA3072, hsm.RSA4096},
		New: func(t *testing.T) hsmtest.Device {
			d := driver(t, pkcs11.Module{Path: blankToken(t)})
			return hsmtest.Device{Driver: d, Token: only(t, d).URI(), PIN: ockPIN, WrongPIN: "975310"}
		},
	})
	tokens.Record(t, "openCryptoki software token", "pkcs11: libopencryptoki", r)
}

func pinState(t *testing.T, tok hsm.Token) hsm.PINState {
	t.Helper()
	info, err := tok.Info(t.Context())
	must.OK(t, err)
	return info.PIN
}

// TestLadder climbs down the tries of a token that really locks: each state is
// told before a PIN is asked for, the last try needs a yes of its own, and a
// locked token asks for nothing.
func TestLadder(t *testing.T) {
	d := driver(t, pkcs11.Module{Path: blankToken(t)})
	tok, err := d.Open(t.Context(), only(t, d).URI())
	must.OK(t, err)
	defer tok.Close()
	state := func() hsm.PINState { return pinState(t, tok) }
	if s := state(); s.Low || s.Final || s.Locked {
		t.Fatalf("new: %+v", s)
	}
	wrong := hsmtest.PIN("975310")
	for try := 1; !state().Final; try++ {
		if err := tok.Unlock(t.Context(), hsmtest.NewScript(t, wrong, hsmtest.Cancel())); !errors.Is(err, hsm.ErrCancelled) {
			// At the last try the question is another, and Cancel answers it, too.
			t.Fatalf("wrong PIN %d: %v", try, err)
		}
		if s := state(); s.Locked || !s.Low && !s.Final {
			t.Fatalf("after %d wrong PINs: %+v", try, s)
		}
	}
	if err := tok.Unlock(t.Context(), hsmtest.NewScript(t, hsmtest.No())); !errors.Is(err, hsm.ErrCancelled) {
		t.Fatalf("the last try declined: %v", err)
	}
	if s := state(); !s.Final || s.Locked || s.Retries != 1 {
		t.Fatalf("declined, and yet %+v", s)
	}
	err = tok.Unlock(t.Context(), hsmtest.NewScript(t, hsmtest.Yes(), wrong))
	if !errors.Is(err, hsm.ErrPINLocked) && !errors.Is(err, hsm.ErrPINIncorrect) {
		t.Fatalf("the last try, wrong: %v", err)
	}
	if s := state(); !s.Locked || s.Retries != 0 {
		t.Fatalf("not locked: %+v", s)
	}
	if err := tok.Unlock(t.Context(), hsmtest.NewScript(t)); !errors.Is(err, hsm.ErrPINLocked) {
		t.Fatalf("a locked token: %v", err)
	}
}

// elsewhere is a person who types while another program spends the tries.
type elsewhere struct {
	*hsmtest.Script
	spend func()
}

func (e elsewhere) PIN(ctx context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	e.spend()
	return e.Script.PIN(ctx, p)
}

// TestTriesSpentMeanwhile: the last try wants its yes also if it became the last
// one while the PIN was typed.
func TestTriesSpentMeanwhile(t *testing.T) {
	module := blankToken(t)
	d := driver(t, pkcs11.Module{Path: module})
	tok, err := d.Open(t.Context(), only(t, d).URI())
	must.OK(t, err)
	defer tok.Close()
	state := func() hsm.PINState { return pinState(t, tok) }
	other := p11.New(module)
	p := elsewhere{hsmtest.NewScript(t, hsmtest.PIN(ockPIN), hsmtest.No()), func() {
		slots, err := other.GetSlotList(true)
		must.OK(t, err)
		for !state().Final {
			sh, err := other.OpenSession(slots[0], p11.CKF_SERIAL_SESSION)
			must.OK(t, err)
			if err := errors.Join(other.Login(sh, p11.CKU_USER, "975310"), other.CloseSession(sh)); !errors.Is(err,
				p11.Error(p11.CKR_PIN_INCORRECT)) {
				t.Fatal(err)
			}
		}
	}}
	if err := tok.Unlock(t.Context(), p); !errors.Is(err, hsm.ErrCancelled) || tok.Unlocked() {
		t.Errorf("unlocked: %t, %v", tok.Unlocked(), err)
	}
	if s := state(); !s.Final || s.Locked {
		t.Errorf("%+v", s)
	}

	if err := errors.Join(tok.Unlock(t.Context(), hsmtest.NewScript(t, hsmtest.Yes(), hsmtest.PIN(ockPIN))),
		tok.Lock()); err != nil || state().Final {
		t.Fatalf("%+v, %v", state(), err)
	}
	p.Script = hsmtest.NewScript(t, hsmtest.PIN(ockPIN), hsmtest.PIN("864209"), hsmtest.No())
	if err := tok.ChangePIN(t.Context(), hsm.UserPIN, p); !errors.Is(err, hsm.ErrCancelled) {
		t.Errorf("changed: %v", err)
	}
}

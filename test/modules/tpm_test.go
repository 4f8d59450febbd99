//go:build linux && cgo

package modules

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	p11 "github.com/miekg/pkcs11"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/p11server"
	"github.com/kubehsm/kubehsm/test/tokens"
	"github.com/kubehsm/kubehsm/test/vcard"
)

const (
	tpmPort = 2321 // in the private network; the control channel is the next
	tpmPIN  = "135790"
	tpmSO   = "12121212"
)

// daemon starts a program that ends with the test, and waits until up says so.
func daemon(t *testing.T, up func() bool, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	must.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // ended below; the log tells of trouble
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // the process may have ended
		<-ended
	})
	for deadline := time.Now().Add(20 * time.Second); !up(); {
		select {
		case <-ended:
			t.Fatalf("%s ended: %s", name, &log)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come up", name)
		}
	}
}

// dials returns a question whether somebody listens there.
func dials(network, address string) func() bool {
	return func() bool {
		conn, err := net.Dial(network, address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
}

// tpm starts a TPM in software, the resource manager that swaps keys in and out
// of its three places, and initializes a token in it.
func tpm(t *testing.T) pkcs11.Module {
	vcard.Private(t)
	path := p11server.Library(t, "libtpm2_pkcs11.so.1")
	dir := t.TempDir()
	bus := filepath.Join(dir, "bus")
	env := map[string]string{
		"TPM2_PKCS11_STORE": dir, "TPM2_PKCS11_TCTI": "tabrmd:bus_type=session",
		"DBUS_SESSION_BUS_ADDRESS": "unix:path=" + bus,
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	ask := need.Program(t, "dbus-send")
	owned := func() bool { // the resource manager has its name on the bus
		return exec.Command(ask, "--session", "--print-reply", "--dest=org.freedesktop.DBus", "/",
			"org.freedesktop.DBus.GetNameOwner", "string:com.intel.tss2.Tabrmd").Run() == nil
	}
	port := strconv.Itoa(tpmPort)
	control := strconv.Itoa(tpmPort + 1)
	daemon(t, dials("tcp", "127.0.0.1:"+control), need.Program(t, "swtpm"), "socket", "--tpm2", "--tpmstate", "dir="+dir,
		"--flags", "not-need-init,startup-clear", "--server", "type=tcp,bindaddr=127.0.0.1,port="+port,
		"--ctrl", "type=tcp,bindaddr=127.0.0.1,port="+control)
	daemon(t, dials("unix", bus), need.Program(t, "dbus-daemon"), "--session", "--nofork", "--nopidfile",
		"--address=unix:path="+bus)
	daemon(t, owned, need.File(t, "/usr/sbin/tpm2-abrmd"),
		"--allow-root", "--session", "--tcti=swtpm:host=127.0.0.1,port="+port)
	library(t, path, func(c *p11.Ctx, must func(error)) {
		slots, err := c.GetSlotList(true)
		must(err)
		must(c.InitToken(slots[0], tpmSO, "tpm2-pkcs11 test"))
		loggedIn(c, must, slots[0], p11.CKU_SO, tpmSO, func(sh p11.SessionHandle) { must(c.InitPIN(sh, tpmPIN)) })
	})
	return pkcs11.Module{Path: filepath.Clean(path), Env: env}
}

func TestTPM(t *testing.T) {
	r := hsmtest.Run(t, hsmtest.Fixture{
		Algorithms: []hsm.Algorithm{hsm.ECDSAP256, hsm.ECDSAP384, hsm.RSA2048},
		Slow:       []hsm.Algorithm{hsm.RSA3072},
		New: func(t *testing.T) hsmtest.Device {
			d := driver(t, tpm(t))
			return hsmtest.Device{Driver: d, Token: only(t, d).URI(), PIN: tpmPIN, WrongPIN: "975310"}
		},
	})
	tokens.Record(t, "TPM 2.0 (swtpm)", "pkcs11: libtpm2_pkcs11", r)
}

// wrongOnce types a wrong PIN, and no other after it.
type wrongOnce struct{ hsm.Prompter }

func (wrongOnce) PIN(_ context.Context, p hsm.PINPrompt) (*hsm.Secret, error) {
	if p.Again != "" {
		return nil, hsm.ErrCancelled
	}
	return hsm.NewSecret([]byte("975310")), nil
}

// TestTPMLockout: a TPM that has seen too many wrong PINs locks all that has one
// (its dictionary attack protection, TPM 2.0 Library part 1 section 19.8), also
// for who knows the PIN. That is said as a locked PIN; nobody is told that the PIN
// is wrong, and no try is made that was not typed.
func TestTPMLockout(t *testing.T) {
	d := driver(t, tpm(t))
	tok, err := d.Open(t.Context(), only(t, d).URI())
	must.OK(t, err)
	defer tok.Close()
	for typed := 1; ; typed++ {
		err := tok.Unlock(t.Context(), wrongOnce{})
		if errors.Is(err, hsm.ErrPINLocked) {
			break
		}
		if !errors.Is(err, hsm.ErrCancelled) {
			t.Fatalf("try %d: %v", typed, err)
		}
		if typed == 40 {
			t.Fatal("the TPM does not lock")
		}
	}
	err = tok.Unlock(t.Context(), hsmtest.NewScript(t, hsmtest.PIN(tpmPIN)))
	if !errors.Is(err, hsm.ErrPINLocked) || !strings.Contains(hinting.Of(err), "by itself") {
		t.Errorf("the right PIN: %v, hint %q", err, hinting.Of(err))
	}
	if tok.Unlocked() {
		t.Error("unlocked")
	}
}

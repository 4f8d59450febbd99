//go:build linux && cgo

package administer

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebfe/scard"

	"github.com/kubehsm/kubehsm/test/vcard"
)

// holdVar has this program hold the card in the reader that it names for
// itself, as GnuPG's scdaemon does, until it is killed.
const holdVar = "KUBEHSM_TEST_HOLD"

func hold(reader string) error {
	ctx, err := scard.EstablishContext()
	if err != nil {
		return err
	}
	if _, err := ctx.Connect(reader, scard.ShareExclusive, scard.ProtocolAny); err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// scdaemon starts a program of that name that holds the card, and puts a
// gpgconf on PATH that ends it and keeps its arguments in the returned file.
func (d *desk) scdaemon() (log string) {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	bin := d.t.TempDir()
	daemon := filepath.Join(bin, "scdaemon")
	if err := os.Symlink(self, daemon); err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command(daemon)
	cmd.Env = append(os.Environ(), holdVar+"="+d.lab.Reader(0))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // killed above
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		d.t.Fatalf("the card is not held: %q, %v", line, err)
	}
	log = filepath.Join(bin, "log")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> '%s'\nkill %d\n", log, cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(bin, "gpgconf"), []byte(script), 0o700); err != nil {
		d.t.Fatal(err)
	}
	d.t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return log
}

// TestRelease: the error names who holds the card and the remedy; nobody is
// ended unless it is asked for.
func TestRelease(t *testing.T) {
	d := newDesk(t, vcard.Config{})
	log := d.scdaemon()
	code, _, errs := d.run("token", "info")
	if code != 1 || !strings.Contains(errs, "in use by another program") ||
		!strings.Contains(errs, "scdaemon (process ") ||
		!strings.Contains(errs, "`kubehsm token release`") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, err := os.Stat(log); err == nil {
		t.Fatal("gpgconf was run, and nobody had asked for it")
	}
	if out := d.ok("token", "release", "-o", "json"); !strings.Contains(out, `"released": "scdaemon"`) {
		t.Errorf("%s", out)
	}
	if b, err := os.ReadFile(log); err != nil || string(b) != "--kill scdaemon\n" {
		t.Errorf("gpgconf was run with %q: %v", b, err)
	}
	if out := d.ok("token", "info"); !strings.Contains(out, "12345678") {
		t.Errorf("%s", out)
	}
}

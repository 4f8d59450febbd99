package vcard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
)

// labVar tells a process that it runs in the private namespaces. It holds
// "enter" at its start, then "in", or why there are none.
const labVar = "KUBEHSM_TEST_VCARD_LAB"

// Slots is the number of readers of a lab (vpcd's).
const Slots = 2

const (
	friendlyName = "Yubico YubiKey OTP+FIDO+CCID" // some tools look for "Yubikey"
	port         = 35963                          // port of vpcd's first reader
	patience     = time.Minute
)

// libraries are the places of vpcd's reader driver.
var libraries = []string{
	"/usr/lib/pcsc/drivers/serial/libifdvpcd.so",
	"/usr/lib64/pcsc/drivers/serial/libifdvpcd.so",
	"/usr/local/lib/pcsc/drivers/serial/libifdvpcd.so",
}

// Lab is a private pcscd with two virtual readers.
type Lab struct {
	dir    string
	daemon *exec.Cmd
	ended  chan struct{}
	slots  [Slots]*insertion
}

// Main runs a package's tests where [ForTest] works: again, in private
// namespaces. It returns the exit code for os.Exit. Where namespaces cannot be
// had the tests run as they are, and those that call ForTest say why they do not.
func Main(m interface{ Run() int }) int {
	if code, done := settle(); done {
		return code
	}
	return m.Run()
}

// settle brings this process into the namespaces: a first one runs itself again
// and is done; the second one makes them usable.
func settle() (code int, done bool) {
	var err error
	switch os.Getenv(labVar) {
	case "":
		if code, err = reexec(); err == nil {
			return code, true
		}
	case "enter":
		err = enter()
	default:
		return 0, false
	}
	state := "in"
	if err != nil {
		state = err.Error()
	}
	os.Setenv(labVar, state)
	return 0, false
}

// ForTest starts a lab that lives as long as the test. Tests that use one
// cannot run in parallel with each other: the readers are the namespace's.
func ForTest(t testing.TB) *Lab {
	t.Helper()
	Private(t)
	need.Program(t, "pcscd")
	need.File(t, libraries...)
	lab, err := start(t.TempDir())
	must.OK(t, err)
	t.Cleanup(lab.Close)
	return lab
}

// Private ends the test, as missing a part, unless it runs in the private
// namespaces (user, mount, network, System V IPC) that [Main] makes: there it
// may mount over the machine's folders and start daemons.
func Private(t testing.TB) {
	t.Helper()
	switch state := os.Getenv(labVar); state {
	case "in":
	case "":
		t.Fatal("vcard: this package's TestMain must run the tests by vcard.Main")
	default:
		need.Missing(t, state)
	}
}

// Open starts a lab in dir, for a program that [Main] runs.
func Open(dir string) (*Lab, error) {
	if state := os.Getenv(labVar); state != "in" {
		return nil, errors.New(state)
	}
	return start(dir)
}

// start writes the reader's configuration into dir and starts pcscd.
func start(dir string) (*Lab, error) {
	var library string
	for _, l := range libraries {
		if _, err := os.Stat(l); err == nil {
			library = l
			break
		}
	}
	if library == "" {
		return nil, errors.New("vcard: vpcd's reader driver is not installed")
	}
	conf := fmt.Sprintf("FRIENDLYNAME %q\nDEVICENAME /dev/null:0x%X\nLIBPATH %s\nCHANNELID 0x%X\n", friendlyName, port,
		library, port)
	// A folder of its own: pcscd reads every file there.
	if err := os.Mkdir(filepath.Join(dir, "reader.conf.d"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "reader.conf.d", "vpcd"), []byte(conf), 0o600); err != nil {
		return nil, err
	}
	l := &Lab{dir: dir}
	return l, l.StartDaemon()
}

// StartDaemon starts pcscd and waits until it lists the readers.
func (l *Lab) StartDaemon() error {
	log, err := os.Create(filepath.Join(l.dir, "pcscd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	l.daemon = exec.Command("pcscd", "--foreground", "--config", filepath.Join(l.dir, "reader.conf.d"))
	l.daemon.Stdout, l.daemon.Stderr = log, log
	dieWithParent(l.daemon)
	if err := l.daemon.Start(); err != nil {
		return fmt.Errorf("vcard: %w", err)
	}
	l.ended = make(chan struct{})
	go func(d *exec.Cmd, ended chan struct{}) {
		_ = d.Wait() // killed below; the log tells of trouble
		close(ended)
	}(l.daemon, l.ended)
	for deadline := time.Now().Add(patience); !readersListed(Slots); {
		select {
		case <-l.ended:
			text, _ := os.ReadFile(filepath.Join(l.dir, "pcscd.log"))
			return fmt.Errorf("vcard: pcscd ended: %s", text)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(filepath.Join(l.dir, "pcscd.log"))
			return fmt.Errorf("vcard: pcscd does not list the virtual readers: %s", text)
		}
	}
	return nil
}

// StopDaemon pulls all cards and ends pcscd.
func (l *Lab) StopDaemon() {
	for slot := range l.slots {
		if in := l.slots[slot]; in != nil {
			in.pull()
			<-in.gone
			l.slots[slot] = nil
		}
	}
	if l.daemon == nil {
		return
	}
	_ = l.daemon.Process.Kill() // The daemon may have ended.
	<-l.ended
	l.daemon = nil
	// A killed daemon leaves what the next one would stumble over.
	_ = os.Remove("/run/pcscd/pcscd.comm")
	_ = os.Remove("/run/pcscd/pcscd.pid")
}

// CrashDaemon kills pcscd, with the cards in its readers.
func (l *Lab) CrashDaemon() {
	_ = l.daemon.Process.Kill() // The daemon may have ended.
	<-l.ended
}

// Close ends the lab.
func (l *Lab) Close() { l.StopDaemon() }

// Reader returns the PC/SC name of the reader.
func (l *Lab) Reader(slot int) string { return fmt.Sprintf("%s 00 %02d", friendlyName, slot) }

// Put puts card into reader slot (0 or 1) in the place of another and waits until pcscd sees it.
func (l *Lab) Put(slot int, card *Card) error {
	if l.slots[slot] != nil {
		if err := l.Pull(slot); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	in, err := insert(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port+slot)), card, l.hasten)
	if err != nil {
		return err
	}
	l.slots[slot] = in
	return l.waitCard(l.Reader(slot), true)
}

// Pull takes the card out of reader slot and waits until pcscd sees it.
func (l *Lab) Pull(slot int) error {
	in := l.slots[slot]
	if in == nil {
		return nil
	}
	in.pull()
	<-in.gone
	l.slots[slot] = nil
	return l.waitCard(l.Reader(slot), false)
}

// Insert is [Lab.Put] for tests.
func (l *Lab) Insert(t testing.TB, slot int, card *Card) {
	t.Helper()
	must.OK(t, l.Put(slot, card))
}

// Remove is [Lab.Pull] for tests.
func (l *Lab) Remove(t testing.TB, slot int) {
	t.Helper()
	must.OK(t, l.Pull(slot))
}

// Yank pulls the card out of reader slot without waiting for anybody, as a
// hand does in the middle of an operation.
func (l *Lab) Yank(slot int) {
	if in := l.slots[slot]; in != nil {
		in.pull()
	}
}

// Run runs a program against cards (at most [Slots]) in private namespaces and
// returns its exit code. The calling program must do nothing before it: it is
// run again.
func Run(cards []*Card, name string, args ...string) (int, error) {
	if code, done := settle(); done {
		return code, nil
	}
	dir, err := os.MkdirTemp("", "vcard")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	lab, err := Open(dir)
	if err != nil {
		return 1, err
	}
	defer lab.Close()
	for slot, card := range cards {
		if err := lab.Put(slot, card); err != nil {
			return 1, err
		}
	}
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if cmd.ProcessState != nil {
		return cmd.ProcessState.ExitCode(), nil
	}
	return 1, err
}

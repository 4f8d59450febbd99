//go:build linux && cgo

package administer

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/piv"
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
	"github.com/kubehsm/kubehsm/ui/cli"
)

// TestMain leaves the terminal, if there is one: the tests say what happens
// where nobody can be asked. It is also the worker process of the program that they run.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "agent" && os.Args[2] == "worker" {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	if reader := os.Getenv(holdVar); reader != "" {
		if err := hold(reader); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	_, _ = syscall.Setsid() // fails only in the first of the two processes, where no test runs
	os.Exit(vcard.Main(m))
}

// work is the worker process.
func work() error {
	control, err := child.Control()
	if err != nil {
		return err
	}
	h := worker.NewHost()
	return h.Serve(context.Background(), hsm.Drivers{piv.New(piv.Options{Finishing: h.Finishing})}, control)
}

const (
	ownPIN = "246802"
	slot9a = "piv:serial=12345678;slot=9a"
)

// desk is a user's machine with a card in its reader.
type desk struct {
	t    *testing.T
	home string
	lab  *vcard.Lab
	card *vcard.Card
}

func newDesk(t *testing.T, config vcard.Config) *desk {
	t.Helper()
	home := t.TempDir()
	must.OK(t, os.Chmod(home, 0o700))
	d := &desk{t: t, home: home, lab: vcard.ForTest(t), card: vcard.New(config)}
	d.lab.Insert(t, 0, d.card)
	return d
}

// fd returns the number of a descriptor that holds the secret.
func (d *desk) fd(secret string) string {
	d.t.Helper()
	r, w, err := os.Pipe()
	must.OK(d.t, err)
	defer r.Close()
	if _, err := w.WriteString(secret + "\n"); err != nil {
		d.t.Fatal(err)
	}
	must.OK(d.t, w.Close())
	fd, err := syscall.Dup(int(r.Fd()))
	must.OK(d.t, err)
	b, err := json.Marshal(fd)
	must.OK(d.t, err)
	return string(b)
}

// run runs the program and returns what it wrote.
func (d *desk) run(args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	var out, errs bytes.Buffer
	d.t.Setenv("KUBEHSM_HOME", d.home) // the worker reads it too
	env := map[string]string{"KUBEHSM_HOME": d.home, "HOME": d.home}
	get := func(k string) string { return env[k] }
	code = program(append([]string{"kubehsm"}, args...), get, &out, &errs).Run(d.t.Context())
	if strings.Contains(out.String()+errs.String(), ownPIN) {
		d.t.Errorf("%v wrote the PIN", args)
	}
	if d.card.Verified() || d.card.Managed() {
		d.t.Errorf("%v left the card with PIN verified %v, management key proved %v", args, d.card.Verified(),
			d.card.Managed())
	}
	return code, out.String(), errs.String()
}

// program is kubehsm with the driver of smart cards.
func program(args []string, getenv func(string) string, stdout, stderr io.Writer) *cli.Program {
	return &cli.Program{
		Args: args, Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr,
		Getenv: getenv, Setenv: func(string, string) error { return nil },
		Executable: "/nonexistent/kubehsm", Version: "v0.0.0-test",
		Drivers: func(o cli.DriverOptions) hsm.Drivers {
			return hsm.Drivers{piv.New(piv.Options{Finishing: o.Finishing})}
		},
	}
}

func (d *desk) ok(args ...string) string {
	d.t.Helper()
	code, out, errs := d.run(args...)
	if code != 0 {
		d.t.Fatalf("%v: exit code %d: %s", args, code, errs)
	}
	return out
}

func (d *desk) fails(code int, words string, args ...string) {
	d.t.Helper()
	got, _, errs := d.run(args...)
	if got != code || !strings.Contains(errs, words) {
		d.t.Errorf("%v: exit code %d, want %d; stderr %q, want %q in it", args, got, code, errs, words)
	}
}

// document runs the program with -o json.
func (d *desk) document(args ...string) map[string]any {
	d.t.Helper()
	var doc map[string]any
	if out := d.ok(append(args, "-o", "json")...); json.Unmarshal([]byte(out), &doc) != nil {
		d.t.Fatalf("%v: no JSON: %q", args, out)
	}
	return doc
}

func (d *desk) own() {
	d.t.Helper()
	d.ok("token", "pin", "change", "--pin-fd", d.fd(vcard.DefaultPIN), "--new-pin-fd", d.fd(ownPIN))
}

// enrolled puts an enrollment with the key in slot 9a into the store.
func (d *desk) enrolled(name, hash string) enrollment.Store {
	d.t.Helper()
	dirs, err := home.FromEnv(func(k string) string { return map[string]string{"KUBEHSM_HOME": d.home}[k] })
	must.OK(d.t, err)
	key, err := hsm.ParseURI(slot9a)
	must.OK(d.t, err)
	store := enrollment.NewStore(dirs)
	err = store.Save(enrollment.Enrollment{
		Name: name, Cluster: cluster.Cluster{Server: "https://cluster.example"}, Key: key, KeyHash: hash, User: "jane", Created: time.Now().UTC(),
	})
	must.OK(d.t, err)
	return store
}

// TestSecrets sets PIN and PUK of a new card.
func TestSecrets(t *testing.T) {
	d := newDesk(t, vcard.Config{})
	if _, _, notes := d.run("token", "info"); strings.Count(notes, "note: the default") != 3 {
		t.Errorf("default values are not told: %q", notes)
	}
	// Nobody is asked for a ticket, nor is a wrong one looked at, before.
	d.fails(1, "the default PIN, PUK and management key", "join", "--ticket", "KHSM1")
	d.fails(2, "neither a ticket nor a file with one", "join", "--ticket", "KHSM1", "--accept-risk", "default-secrets")
	d.fails(4, "wrong PIV PIN: 2 tries left", "token", "pin", "change", "--pin-fd", d.fd("999999"), "--new-pin-fd",
		d.fd(ownPIN))
	if pin, _ := d.card.PINRetries(); pin != 2 {
		t.Errorf("a wrong PIN cost %d tries", 3-pin)
	}
	d.fails(5, "no terminal", "token", "pin", "change", "--pin-fd", d.fd(vcard.DefaultPIN))
	d.own()
	if !d.card.CheckPIN(ownPIN) {
		t.Error("the PIN is another")
	}
	puk := strings.TrimSpace(d.ok("token", "puk", "change", "--generate", "--print", "--puk-fd", d.fd(vcard.DefaultPUK)))
	if len(puk) != 8 || !d.card.CheckPUK(puk) {
		t.Errorf("the PUK is not %q", puk)
	}
	d.card.SetPINRetries(0)
	d.fails(4, "the PIN is blocked", "token", "pin", "change", "--pin-fd", d.fd(ownPIN), "--new-pin-fd", d.fd(ownPIN))
	d.ok("token", "pin", "unblock", "--puk-fd", d.fd(puk), "--new-pin-fd", d.fd("135791"))
	if !d.card.CheckPIN("135791") {
		t.Error("not unblocked")
	}
	d.fails(5, "with --print", "token", "puk", "change", "--generate")
}

// TestManagementKey sets it, protected and not, and again where the card was pulled half-way.
func TestManagementKey(t *testing.T) {
	d := newDesk(t, vcard.Config{})
	d.own()
	out := d.ok("token", "management-key", "set", "--protect", "--pin-fd", d.fd(ownPIN))
	_, key := d.card.ManagementKey()
	if !strings.Contains(out, "kept on the card") || strings.Contains(out, hex.EncodeToString(key)) ||
		bytes.Equal(key, vcard.DefaultManagementKey()) {
		t.Errorf("%q", out)
	}
	shown := d.ok("token", "management-key", "set", "--print", "--algorithm", "aes-256", "--pin-fd", d.fd(ownPIN))
	if _, key = d.card.ManagementKey(); strings.TrimSpace(shown) != hex.EncodeToString(key) || len(key) != 32 {
		t.Errorf("shown %q, in force %x", shown, key)
	}
	mine := strings.Repeat("ab", 32)
	out = d.ok("token", "management-key", "set", "--management-key-fd", d.fd(hex.EncodeToString(key)),
		"--new-management-key-fd", d.fd(mine))
	if _, key = d.card.ManagementKey(); hex.EncodeToString(key) != mine || strings.Contains(out, mine) {
		t.Errorf("in force %x; %q", key, out)
	}
	d.fails(5, "with --print", "token", "management-key", "set", "--management-key-fd", d.fd(mine))
	d.card.Fail(vcard.Fault{INS: vcard.INSSetManagement, Skip: 1, Times: 1, After: true, Unplug: true})
	code, shown, errs := d.run("token", "management-key", "set", "--protect", "--print", "--pin-fd", d.fd(ownPIN),
		"--management-key-fd", d.fd(mine))
	if code != 3 || shown != "" || !strings.Contains(errs, "the card has kept what it takes to go on") {
		t.Errorf("exit code %d; shown %q: %s", code, shown, errs)
	}
	d.lab.Insert(t, 0, d.card)
	d.ok("token", "management-key", "set", "--protect", "--pin-fd", d.fd(ownPIN))
	if _, again := d.card.ManagementKey(); bytes.Equal(again, key) {
		t.Error("the command that was run again has set no key")
	}
}

// TestKeys walks a key from its making to its end.
func TestKeys(t *testing.T) {
	d := newDesk(t, vcard.Config{Touch: func(byte, <-chan struct{}) bool { return true }})
	d.own()
	d.ok("token", "management-key", "set", "--protect", "--pin-fd", d.fd(ownPIN))
	d.ok("key", "generate", "--slot", "9a", "--touch-policy", "always", "--pin-fd", d.fd(ownPIN))
	if doc := d.document("key", "show", "--key", slot9a); doc["touchPolicy"] != "always" || doc["origin"] != "generated" {
		t.Errorf("%v", doc)
	}
	root, file := filepath.Join(d.home, "root.pem"), filepath.Join(d.home, "attestation.pem")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vcard.DefaultCA().Certificate.Raw})
	must.OK(t, os.WriteFile(root, b, 0o600))
	out := d.ok("key", "attest", "--key", slot9a, "--root", root, "--to", file)
	for _, want := range []string{"12345678, firmware 5.7.1, PIN once, touch always",
		"It is verified to Virtual PIV Root CA, and is for this very key"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing: %s", want, out)
		}
	}
	d.fails(1, "not traced to a trusted maker", "key", "attest", "--key", slot9a)
	d.fails(1, "not traced to a trusted maker", "attestation", "verify", file)
	d.fails(2, "exists already", "key", "attest", "--key", slot9a, "--root", root, "--to", file)
	public := filepath.Join(d.home, "key.pem")
	must.OK(t, os.WriteFile(public, []byte(d.ok("key", "show", "--key", slot9a, "-o", "pem")), 0o600))
	if out := d.ok("attestation", "verify", file, "--root", root, "--for", public); !strings.Contains(out,
		"is for this very key") {
		t.Errorf("%s", out)
	}
	d.fails(5, "--accept-risk=serial:12345678", "key", "delete", "--key", slot9a, "--pin-fd", d.fd(ownPIN))
	d.fails(2, "nothing was changed", "key", "delete", "--key", slot9a, "--accept-risk", "serial:1")
	d.ok("key", "delete", "--key", slot9a, "--accept-risk", "serial:12345678", "--pin-fd", d.fd(ownPIN))
	if d.card.Public(0x9a) != nil {
		t.Error("the key is still there")
	}
}

// TestReset takes a card that is locked for good back to the start.
func TestReset(t *testing.T) {
	d := newDesk(t, vcard.Config{})
	d.own()
	_, key := d.card.ManagementKey()
	alg, own := byte(0x0a), bytes.Repeat([]byte{7}, len(key))
	d.card.SetManagementKey(alg, own)
	d.ok("key", "generate", "--pin-fd", d.fd(ownPIN), "--management-key-fd", d.fd(hex.EncodeToString(own)))
	d.fails(5, "--accept-risk=serial:12345678", "token", "reset")
	d.fails(2, "nothing was changed", "token", "reset", "--accept-risk", "serial:87654321")
	if d.card.Public(0x9a) == nil || !d.card.CheckPIN(ownPIN) {
		t.Fatal("the card was touched")
	}
	d.card.SetPINRetries(0)
	code, out, errs := d.run("token", "reset", "--accept-risk", "serial:12345678")
	if code != 0 || !strings.Contains(out, "is reset") || !strings.Contains(errs, "9a") ||
		!strings.Contains(errs, "note: the default PIN") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	if d.card.Public(0x9a) != nil || !d.card.CheckPIN(vcard.DefaultPIN) {
		t.Error("the card is not as new")
	}
}

//go:build linux && cgo

package modules

import (
	"bytes"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/test/badlib"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// pin is that of the token in SoftHSM.
const pin = "123456"

// user is somebody with the whole program, a card in the reader, a token in SoftHSM,
// and libraries that misbehave.
type user struct {
	t       *testing.T
	program string
	env     []string
	bad     map[string]string // paths of the libraries
}

func newUser(t *testing.T, ways ...string) *user {
	t.Helper()
	reader := vcard.ForTest(t)
	reader.Insert(t, 0, vcard.New(vcard.Config{}))
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: "good", PIN: pin})
	u := &user{t: t, bad: badlib.Make(t, ways...)}
	home := t.TempDir()
	config := "modules:\n- path: " + soft.Module + "\n" // the way to its token that is shown
	for _, way := range ways {
		config += "- path: " + u.bad[way] + "\n"
	}
	err := errors.Join(os.Chmod(home, 0o700), os.WriteFile(filepath.Join(home, "config.yaml"), []byte(config), 0o600))
	if err == nil {
		u.program, err = lab.Build(t.Context(), t.TempDir())
	}
	must.OK(t, err)
	u.env = append(os.Environ(), "KUBEHSM_HOME="+home, "HOME="+home, "XDG_CONFIG_HOME="+home, badlib.Real+"="+soft.Module)
	return u
}

func (u *user) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(u.t.Context(), u.program, args...)
	cmd.Env = u.env
	cmd.Stdin = strings.NewReader(pin) // for --pin-fd 0
	return cmd
}

// run runs the program and returns its exit code and what it wrote.
func (u *user) run(args ...string) (code int, stdout, stderr string) {
	u.t.Helper()
	var out, errs bytes.Buffer
	cmd := u.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		u.t.Fatal(err)
	}
	code, stdout, stderr = cmd.ProcessState.ExitCode(), out.String(), errs.String()
	if strings.Contains(stdout+stderr, "\x1b") || strings.Contains(stdout+stderr, "goroutine ") {
		u.t.Errorf("%v: %q %q", args, stdout, stderr)
	}
	return code, stdout, stderr
}

// TestBadLibrariesBesideTokens: with libraries that crash, exit, hang and write
// to the terminal, every command lists the card and the token, and names each of
// those libraries.
func TestBadLibrariesBesideTokens(t *testing.T) {
	ways := []string{"hang", "crash", "exit", "loud", "slow", "abort-token", "hang-list"}
	u := newUser(t, ways...)
	failing := slices.DeleteFunc(slices.Clone(ways), func(way string) bool { return way == "loud" || way == "slow" })
	named := func(args []string, text string) {
		t.Helper()
		for _, way := range failing {
			if !strings.Contains(text, u.bad[way]) {
				t.Errorf("%v does not name %s:\n%s", args, way, text)
			}
		}
	}
	code, out, errs := u.run("token", "list")
	if code != 0 || !strings.Contains(out, "piv:serial=12345678") || strings.Count(out, "\ngood ") != 1 {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	named([]string{"token", "list"}, errs)

	code, out, errs = u.run("token", "list", "-o", "json")
	var doc struct {
		Tokens   []struct{ URI, Scheme, Serial, Label string }
		Problems []struct{ Source, Message, Hint string }
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	cards, goods, sources, goodURI := 0, 0, "", ""
	for _, token := range doc.Tokens {
		if token.Scheme == "piv" {
			cards++
		} else if token.Label == "good" { // the token of SoftHSM, which two of the others reach as well
			goods++
			goodURI = token.URI
		}
	}
	for _, p := range doc.Problems {
		sources += p.Source + " " + p.Message + "\n"
	}
	if cards != 1 || goods != 1 {
		t.Errorf("%d cards, %d tokens: %s", cards, goods, out)
	}
	named([]string{"token", "list", "-o", "json"}, sources)
	for way, how := range map[string]string{
		"crash": "SIGSEGV", "exit": "exit status 0", "abort-token": "SIGABRT", "hang": "did not answer",
	} {
		if !strings.Contains(sources, u.bad[way]) || !strings.Contains(sources, how) {
			t.Errorf("%s: %q is not said: %s", way, how, sources)
		}
	}

	code, out, errs = u.run("key", "list")
	if code != 1 || out != "" || strings.Contains(errs, "No keys") {
		t.Errorf("key list: exit code %d: %s%s", code, out, errs)
	}
	named([]string{"key", "list"}, errs)
	_, out, _ = u.run("doctor", "--offline", "--all")
	if strings.Count(out, "Token YubiKey 5 12345678:") != 1 ||
		strings.Count(out, "Token good:") != 1 { // three libraries reach it
		t.Errorf("doctor: %s", out)
	}
	named([]string{"doctor"}, out)

	// A command about one token is not kept from it.
	code, out, errs = u.run("token", "info", "--token", "piv:serial=12345678")
	if code != 0 || !strings.Contains(out, "12345678") {
		t.Errorf("the card: exit code %d: %s%s", code, out, errs)
	}
	if code, out, errs = u.run("token", "info", "--token", goodURI); code != 0 || !strings.Contains(out, "good") {
		t.Errorf("the token: exit code %d: %s%s", code, out, errs)
	}
}

// TestDoctorReportsACrashAtLogin: doctor's report is whole if the library that is to take the PIN
// crashes with it, and the crash is a finding in it.
func TestDoctorReportsACrashAtLogin(t *testing.T) {
	u := newUser(t, "tame")
	badlib.Do(t, u.bad["tame"], "crash-login")
	args := []string{"doctor", "--offline", "--unlock", "pkcs11:token=good?module-path=" + u.bad["tame"], "--pin-fd", "0"}
	code, out, errs := u.run(args...)
	for _, words := range []string{"kubectl\n", "12345678", "PIN of pkcs11:token=good", u.bad["tame"] + " crashed (SIGSEGV",
		"may have counted a try"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.TrimSpace(words)) {
			t.Errorf("it does not say %q", words)
		}
	}
	if strings.Contains(out, "no token was found") {
		t.Error("it says that there is no token")
	}
	if code != 1 || t.Failed() {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	code, out, errs = u.run(append(args, "-o", "json")...)
	var doc struct {
		Checks []struct{ ID, State, Found string }
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 1 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	if !slices.ContainsFunc(doc.Checks, func(c struct{ ID, State, Found string }) bool {
		return c.ID == "unlock/pkcs11:token=good" && c.State == "failed" && strings.Contains(c.Found, "crashed")
	}) {
		t.Error(out)
	}
}

// TestSignalWhileALibraryHangs: whoever waits for a library that hangs can leave,
// and takes its process along.
func TestSignalWhileALibraryHangs(t *testing.T) {
	u := newUser(t, "hang")
	for _, args := range [][]string{{"token", "list"}, {"key", "list", "-o", "json"}} {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			cmd := u.command(args...)
			words, err := cmd.StderrPipe()
			must.OK(t, err)
			must.OK(t, cmd.Start())
			said := make([]byte, 512)
			n, err := words.Read(said)
			if err != nil || !strings.Contains(string(said[:n]), u.bad["hang"]) {
				t.Errorf("%v: %q, %v", args, said[:n], err)
			}
			workers := children(t, cmd.Process.Pid)
			must.OK(t, cmd.Process.Signal(s))
			rest, err := io.ReadAll(words)
			_ = cmd.Wait() // the exit code says it
			if code := cmd.ProcessState.ExitCode(); err != nil || code != 130 {
				t.Errorf("%v, %v: exit code %d, %v: %s", args, s, code, err, rest)
			}
			if len(workers) == 0 {
				t.Error("there was no worker")
			}
			for _, pid := range workers {
				if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
					t.Errorf("worker %d outlives the command", pid)
				}
			}
		}
	}
}

// TestSignerAndBadLibraries: a library that crashes or ends its process during a signature for
// a client is named, one that hangs is waited for in words, and what one writes is not in the
// answer.
func TestSignerAndBadLibraries(t *testing.T) {
	u := newUser(t, "tame")
	path := u.bad["tame"]
	code, out, errs := u.run("key", "generate", "--token", "pkcs11:token=good?module-path="+path, "--label", "key",
		"-o", "json", "--pin-fd", "0")
	var key struct{ URI string }
	if err := json.Unmarshal([]byte(out), &key); err != nil || code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	uri, _, _ := strings.Cut(key.URI, "?")
	request, err := wire.NewSignRequest(
		wire.KEP,
		map[string]string{wire.KeyURI: uri + "?module-path=" + path, wire.KeyPIN: pin},
		make([]byte, crypto.SHA256.Size()),
		crypto.SHA256,
	)
	must.OK(t, err)
	u.env = append(u.env, wire.EnvVar+"="+string(request))
	for ways, words := range map[string]string{
		"tame": "", "loud": "", "slow-login": "waiting for the library " + path,
		"crash": path + " crashed (SIGSEGV", "crash-login": path + " crashed (SIGSEGV", "abort-sign": path + " crashed (SIGABRT",
		"exit-sign": path + " crashed (exit status 0)",
	} {
		badlib.Do(t, path, ways)
		code, out, errs := u.run()
		if fails := words != "" && ways != "slow-login"; fails != (code != 0) || fails != (out == "") ||
			!strings.Contains(errs, words) {
			t.Errorf("%s: exit code %d: %q, %q", ways, code, out, errs)
		}
		var answer struct{ Signature []byte }
		if code == 0 && (json.Unmarshal([]byte(out), &answer) != nil || len(answer.Signature) == 0) {
			t.Errorf("%s: %q", ways, out)
		}
	}
}

// children are the processes that pid has started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must.OK(t, err)
	for _, file := range tasks {
		b, err := os.ReadFile(file)
		must.OK(t, err)
		for _, field := range strings.Fields(string(b)) {
			var child int
			if _, err := fmt.Sscan(field, &child); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	return pids
}

// zombie tells whether a process has ended and nobody has asked for it.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

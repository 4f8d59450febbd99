//go:build linux && cgo

package host

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/pkcs11"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

// testModule is the library that the test binary's worker loads.
const testModule = "KUBEHSM_TEST_MODULE"

// workerMain is the worker process.
func workerMain() error {
	control, err := child.Control()
	if err != nil {
		return err
	}
	return worker.NewHost().Serve(context.Background(), driversOf(os.Getenv(testModule)), control)
}

func driversOf(module string) hsm.Drivers {
	return hsm.Drivers{pkcs11.New(pkcs11.Options{Modules: []pkcs11.Module{{Path: module}}})}
}

// moody is a library with moods, and a token of SoftHSM behind it with a key. It is made
// once, as that takes a compiler; each rig has a copy of the token.
var moody struct {
	once            sync.Once
	library, tokens string
	pin             string // made up, so that no program has it in its text
	slot            hsm.Slot
	key             crypto.Signer // the key, for records; the token that it is in stays open
}

func makeMoody(t *testing.T) {
	var err error
	moodyDir, err = os.MkdirTemp("", "moody") // see TestMain
	check(t, err)
	moody.pin, moody.library = rand.Text(), filepath.Join(moodyDir, "moody.so")
	soft, err := hsmtest.NewSoftHSM(moodyDir, hsmtest.SoftToken{Label: "moody", PIN: moody.pin})
	check(t, err)
	headers, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/miekg/pkcs11").Output()
	check(t, err)
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-I", strings.TrimSpace(string(headers)), "-o", moody.library,
		"testdata/moody.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for k, v := range map[string]string{"MOODY_REAL": soft.Module, "SOFTHSM2_CONF": soft.Conf} {
		check(t, os.Setenv(k, v)) // a parallel test may not have it set back
	}
	d := driversOf(moody.library)
	tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "moody"})
	check(t, err)
	slot, err := tok.Generate(t.Context(), hsm.GenerateOptions{Label: "kubehsm"}, hsmtest.Typing(t, moody.pin))
	check(t, err)
	moody.key, err = tok.Signer(context.Background(), slot.URI, slot.Key.Public, hsmtest.Typing(t, moody.pin))
	check(t, err)
	moody.tokens, moody.slot = soft.Tokens, slot
}

// moodyRig is a rig whose key is in a token of its own behind that library, held by a
// worker process. It changes nothing in this process's environment.
type moodyRig struct {
	*rig
	exe  string // this program, which finds its variables beside it: see ownVariables
	mood string // the file that says it
	pin  string
}

func newMoodyRig(t *testing.T) moodyRig {
	t.Helper()
	need.Program(t, "cc")
	dir := t.TempDir()
	soft, err := hsmtest.EmptySoftHSM(dir)
	if err != nil {
		need.Missing(t, err.Error())
	}
	moody.once.Do(func() { makeMoody(t) })
	if moody.slot.Key == nil {
		t.Fatal("the library or its key could not be made")
	}
	check(t, os.CopyFS(soft.Tokens, os.DirFS(moody.tokens)))
	m := moodyRig{rig: &rig{t: t, dir: dir, dirs: dirsOf(t, dir), slot: moody.slot,
		key: moody.key, api: bridgetest.New(t, bridgetest.Options{})},
		exe: filepath.Join(dir, "kubehsm"), mood: filepath.Join(dir, "mood"), pin: moody.pin}
	self, err := os.Executable()
	check(t, err)
	check(t, os.Symlink(self, m.exe))
	for k, v := range map[string]string{"MOODY_REAL": soft.Module, "SOFTHSM2_CONF": soft.Conf, "MOODY_FILE": m.mood,
		testModule: moody.library, home.EnvHome: dir} {
		m.set(k, v)
	}
	m.store = enrollment.NewStore(m.dirs)
	m.enroll(time.Hour)
	return m
}

// set gives the rig's own programs a variable.
func (m moodyRig) set(name, value string) {
	m.t.Helper()
	f, err := os.OpenFile(m.exe+variablesSuffix, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	check(m.t, err)
	_, err = fmt.Fprintf(f, "%s=%s\n", name, value)
	check(m.t, errors.Join(err, f.Close()))
}

// ensure gets the rig's agent, in a process of its own that behaves as program says.
func (m moodyRig) ensure(program string) *client.Client {
	m.t.Helper()
	m.set(agentProgram, program)
	c, err := client.EnsureProgram(m.t.Context(), m.dirs, client.Program{Path: m.exe})
	check(m.t, err)
	return c
}

// serveHere runs the agent in this process, its workers in theirs.
func (m moodyRig) serveHere(o Options, longest time.Duration) {
	m.t.Helper()
	o.Tokens = worker.New(worker.Options{Exe: m.exe, Codes: message.Codes(), Dismissed: message.ErrLocked,
		Longest: longest}, nil)
	m.serve(o)
}

func (m moodyRig) feel(mood string) { check(m.t, os.WriteFile(m.mood, []byte(mood), 0o600)) }

func (m moodyRig) signIn(p hsm.Prompter) (message.Session, error) {
	return m.prepare(m.dial(), caller(1), p)
}

func (m moodyRig) worker() worker.Status {
	m.t.Helper()
	s := m.status()
	if len(s.Workers) != 1 {
		m.t.Fatalf("workers: %+v", s.Workers)
	}
	return s.Workers[0]
}

func TestWorkerHoldsTheToken(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 0)
	s, err := m.signIn(hsmtest.NewScript(t, hsmtest.PIN("0000"), hsmtest.PIN(m.pin)))
	check(t, err)
	if code, _ := m.get(s, "/version"); code != http.StatusOK {
		t.Fatal(code)
	}
	w := m.worker()
	if w.PID == os.Getpid() || w.Memory == 0 {
		t.Fatalf("%+v", w)
	}
	if group, err := unix.Getpgid(w.PID); err != nil || group != w.PID {
		t.Errorf("its process group is %d, not its own: %v", group, err)
	}
	theirs, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.PID))
	if err == nil && !bytes.Contains(theirs, []byte("moody.so")) { // only root may look
		t.Error("the worker has not loaded the library")
	}
	check(t, only(m.dial().Lock(t.Context())))
	if alive(w.PID) {
		t.Error("the worker outlived the lock")
	}
	if st := m.status(); len(st.Workers) != 0 || st.Tokens[0].Unlocked {
		t.Errorf("after the lock: %+v", st)
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestWorkerKilled: what is open goes on, and the next signature starts a new one.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 0)
	s, err := m.signIn(hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
	first := m.worker()
	check(t, syscall.Kill(first.PID, syscall.SIGKILL))
	poll.Until(t, "the worker is gone", func() bool { return len(m.status().Workers) == 0 })
	if code, _ := m.get(s, "/version"); code != http.StatusOK {
		t.Fatalf("the connection went with the worker: %d", code)
	}
	m.mustAgent(func(a *agent) {
		tg, err := a.targets.target("prod")
		check(t, err)
		tg.up.Forget()
		tg.up.Reset()
		tg.ready.Store(false)
	})
	_, err = m.signIn(hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
	if m.worker().PID == first.PID {
		t.Error("the dead worker counts as alive")
	}
}

// TestLibraryCrashes: the agent says so, goes on, and does not try for ever.
func TestLibraryCrashes(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 0)
	m.feel("crash")
	for i := range 3 {
		_, err := m.prepare(m.dial(), caller(i+1), hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
		if !errors.Is(err, hsm.ErrModule) || !strings.Contains(err.Error(), "moody.so crashed (SIGSEGV") {
			t.Fatalf("crash %d: %v", i+1, err)
		}
	}
	_, err := m.prepare(m.dial(), caller(9), nil)
	if !errors.Is(err, hsm.ErrModule) || !strings.Contains(err.Error(), "3 times within a minute") ||
		!strings.Contains(hinting.Of(err), "wait ") {
		t.Fatalf("%v (hint: %s)", err, hinting.Of(err))
	}
	m.end()
	m.feel("")
	m.serveHere(Options{}, 0) // the next agent has seen no crash
	_, err = m.prepare(m.dial(), caller(10), hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
}

// TestCrashAtLogin: the library is named, and kubectl's own retries, which come at once and
// from several goroutines, ask for the PIN no more.
func TestCrashAtLogin(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 0)
	m.feel("crash-login")
	script := hsmtest.NewScript(t, hsmtest.PIN(m.pin)) // once
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for range 2 {
				_, err := m.prepare(m.dial(), caller(1), script)
				if !errors.Is(err, hsm.ErrModule) || !strings.Contains(err.Error(), "moody.so crashed (SIGSEGV") ||
					!strings.Contains(hinting.Of(err), "see the tries left with `kubehsm token info --token") {
					t.Errorf("%v (hint: %s)", err, hinting.Of(err))
				}
			}
		})
	}
	wg.Wait()
	if n := len(script.PINs()); n != 1 {
		t.Errorf("the PIN was asked for %d times", n)
	}
	if ends := m.recordsOf(audit.WorkerEnd); len(ends) != 1 || ends[0].Reason != "crash" || !ends[0].PIN ||
		ends[0].Token.Token != "moody" {
		t.Errorf("on record: %+v", ends)
	}
	m.feel("")
	_, err := m.prepare(m.dial(), caller(2), hsmtest.NewScript(t, hsmtest.PIN(m.pin))) // a second command
	check(t, err)
}

// TestLibraryHangs: the person is told which library is awaited, long before it is given up,
// and is not kept waiting for ever, nor told that the PIN was wrong.
func TestLibraryHangs(t *testing.T) {
	t.Parallel()
	prepare := func(m moodyRig, c *client.Client, p hsm.Prompter) error {
		return only(m.prepare(c, caller(1), p))
	}
	for name, c := range map[string]struct {
		mood string
		try  func(moodyRig, *client.Client, hsm.Prompter) error
		told bool
	}{
		"signing": {"hang", prepare, false},
		"login":   {"hang-login", prepare, true},
		"unlock": {"hang-login", func(m moodyRig, c *client.Client, p hsm.Prompter) error {
			return c.Unlock(m.t.Context(), "prod", p)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMoodyRig(t)
			m.serveHere(Options{}, 5*time.Second)
			m.feel(c.mood)
			script := hsmtest.NewScript(t, hsmtest.PIN(m.pin))
			var w waits
			err := c.try(m, m.waiting(&w), script)
			if !errors.Is(err, hsm.ErrModule) || !strings.Contains(err.Error(), "did not answer for 5 seconds") {
				t.Fatal(err)
			}
			if len(script.PINs()) != 1 || c.told && (len(w.told) != 1 || w.told[0].For != ask.ForLibrary ||
				!strings.Contains(w.told[0].Token, "moody.so")) {
				t.Errorf("asked for the PIN %d times, told %+v", len(script.PINs()), w.told)
			}
			if st := m.status(); len(st.Workers) != 0 {
				t.Errorf("it still runs: %+v", st.Workers)
			}
			m.feel("")
			_, err = m.prepare(m.dial(), caller(2), hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
			check(t, err)
		})
	}
}

// TestLockOfAStoppedWorker ends the worker at once, and says so.
func TestLockOfAStoppedWorker(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 0)
	_, err := m.signIn(hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
	w := m.worker()
	check(t, syscall.Kill(w.PID, syscall.SIGSTOP))
	poll.Until(t, "the worker is suspended", func() bool { return stat(w.PID)[0] == "T" })
	began := time.Now()
	ended, err := client.Lock(t.Context(), m.dirs, nil)
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
	if err != nil || ended.Agent != 0 || len(ended.Tokens) != 1 || ended.Tokens[0].Token != "moody" {
		t.Errorf("%+v, %v", ended, err)
	}
	if st := m.status(); alive(w.PID) || len(st.Workers) != 0 || len(st.Sessions) != 0 {
		t.Errorf("after the lock: %+v", st)
	}
	if ends := m.recordsOf(audit.WorkerEnd); len(ends) != 1 || ends[0].Reason != "no-answer" || ends[0].PIN {
		t.Errorf("on record: %+v", ends)
	}
	_, err = m.prepare(m.dial(), caller(2), hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
}

// TestLockSaysWhatItWaitsFor: a lock that a library keeps waiting tells which one it is, long
// before the library is given up.
func TestLockSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 4*time.Second)
	m.feel("hang-login")
	hangs, ended := make(chan struct{}, 9), make(chan struct{})
	c := m.dial()
	c.Waiting = func(ask.Wait) (done func()) {
		hangs <- struct{}{}
		return func() {}
	}
	go func() {
		defer close(ended)
		if _, err := m.prepare(c, caller(1), hsmtest.NewScript(t, hsmtest.PIN(m.pin))); err == nil {
			t.Error("it is unlocked")
		}
	}()
	<-hangs
	told := make(chan ask.Wait, 9)
	forced, err := client.Lock(t.Context(), m.dirs, func(w ask.Wait) (done func()) {
		told <- w
		return func() {}
	})
	if err != nil || len(forced.Tokens) != 1 || forced.Tokens[0].Token != "moody" { // a login ends with its process
		t.Errorf("%+v, %v", forced, err)
	}
	if w := <-told; w.For != ask.ForLibrary || !strings.Contains(w.Token, "moody.so") {
		t.Errorf("told %+v", w)
	}
	<-ended
}

// TestRemovalLocksAtOnce: nobody need ask first.
func TestRemovalLocksAtOnce(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 0)
	s, err := m.signIn(hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
	watch, err := m.http(s).Get(m.ep.URL("prod") + "/api/v1/watch/pods")
	check(t, err)
	defer watch.Body.Close()
	m.feel("gone")
	last, err := io.ReadAll(watch.Body)
	if err != nil || !bytes.Contains(last, []byte("the token was removed")) {
		t.Errorf("the watch ended with %q, %v", last, err)
	}
	poll.Until(t, "the agent has noticed", func() bool { return len(m.status().Sessions) == 0 })
	if code, body := m.get(s, "/version"); code != http.StatusUnauthorized {
		t.Errorf("the bridge goes on: %d %s", code, body)
	}
	poll.Until(t, "the worker has ended", func() bool { return len(m.status().Workers) == 0 })
	poll.Until(t, "it is in the audit log", func() bool {
		records, err := os.ReadFile(audit.Path(m.dirs))
		check(t, err)
		return bytes.Contains(records, []byte(`"reason":"removed"`))
	})
	_, err = m.prepare(m.dial(), caller(2), nil)
	if !errors.Is(err, hsm.ErrNoToken) {
		t.Error(err)
	}
	m.feel("")
	_, err = m.prepare(m.dial(), caller(3), hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
}

// TestRemovalAfterACrash: a token is looked after also when its worker has died and
// nobody has used it since: what it signed ends with it.
func TestRemovalAfterACrash(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 0)
	s, err := m.signIn(hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
	watch, err := m.http(s).Get(m.ep.URL("prod") + "/api/v1/watch/pods")
	check(t, err)
	defer watch.Body.Close()
	first := m.worker()
	check(t, syscall.Kill(first.PID, syscall.SIGKILL))
	poll.Until(t, "another worker looks after it", func() bool {
		st := m.status()
		return len(st.Workers) == 1 && st.Workers[0].PID != first.PID
	})
	if st := m.status(); st.Tokens[0].Unlocked || st.Upstreams[0].Connections == 0 {
		t.Errorf("%+v", st)
	}
	m.feel("gone")
	last, err := io.ReadAll(watch.Body)
	if err != nil || !bytes.Contains(last, []byte("the token was removed")) {
		t.Errorf("the watch ended with %q, %v", last, err)
	}
}

// TestCancelledPromptLeavesNoWorker: a token that was opened for a PIN that nobody
// typed is let go after a while.
func TestCancelledPromptLeavesNoWorker(t *testing.T) {
	t.Parallel()
	m := newMoodyRig(t)
	m.serveHere(Options{}, 0)
	if _, err := m.signIn(hsmtest.NewScript(t, hsmtest.Cancel())); !errors.Is(err, hsm.ErrCancelled) {
		t.Fatal(err)
	}
	first := m.worker()
	sweep := func(in time.Duration) { m.mustAgent(func(a *agent) { a.sweep(time.Now().Add(in)) }) }
	sweep(unneededFor / 2)
	if w := m.worker(); w.PID != first.PID {
		t.Error("it is not kept for the next try")
	}
	asked, answer := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := m.dial().Prepare(ctx, client.PrepareRequest{Enrollment: "prod", Purpose: as(caller(2))},
			hsmtest.NewScript(t, hsmtest.Hang(asked)))
		answer <- err
	}()
	<-asked
	sweep(2 * unneededFor)
	if w := m.worker(); w.PID != first.PID {
		t.Error("it was taken from somebody who types")
	}
	cancel()
	<-answer
	poll.Until(t, "the worker is let go", func() bool { sweep(2 * unneededFor); return len(m.status().Workers) == 0 })
	s, err := m.prepare(m.dial(), caller(3), hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
	check(t, err)
	sweep(2 * unneededFor)
	if code, _ := m.get(s, "/version"); code != http.StatusOK || !m.status().Tokens[0].Unlocked {
		t.Error("one that is unlocked was let go")
	}
}

// TestPINIsNotInMemory looks for the PIN in the memory of agent and worker, as
// only root can: while it is in use, after a lock, and after an idle time.
func TestPINIsNotInMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Missing(t, "only root reads the memory of a process that is not dumpable")
	}
	t.Parallel()
	for _, how := range []string{"workers", "workers, soon idle"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			m := newMoodyRig(t)
			client := m.ensure(how)
			defer client.Stop(context.Background())
			agentPID := m.status().PID
			if agentPID == os.Getpid() {
				t.Fatal("the agent is this process")
			}
			_, err := m.prepare(client, caller(1), hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
			check(t, err)
			if !remembers(t, agentPID, []byte(testModule+"=")) { // in its environment
				t.Fatal("the memory cannot be searched")
			}
			if how == "workers" {
				worker := m.worker().PID
				for _, pid := range []int{agentPID, worker} { // harden sets both limits
					b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
					check(t, err)
					if !regexp.MustCompile(`(?m)^Max core file size +0 +0 `).Match(b) {
						t.Errorf("process %d is not hardened:\n%s", pid, b)
					}
				}
				if remembers(t, agentPID, []byte(m.pin)) || remembers(t, worker, []byte(m.pin)) {
					t.Error("a PIN is kept that the token does not want again")
				}
				check(t, only(client.Lock(t.Context())))
				if alive(worker) {
					t.Error("the worker lives")
				}
			} else {
				poll.Until(t, "the idle token is locked", func() bool { return len(m.status().Workers) == 0 })
			}
			if remembers(t, agentPID, []byte(m.pin)) {
				t.Error("the agent has kept the PIN")
			}
		})
	}
}

// remembers tells whether text is anywhere in the process's memory.
func remembers(t *testing.T, pid int, text []byte) bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	check(t, err)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	check(t, err)
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vvar") || strings.Contains(line, "[vsyscall") { // the kernel's own
			continue
		}
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil {
			t.Fatal(err)
		}
		if rights[0] != 'r' {
			continue
		}
		b := make([]byte, to-from)
		n, err := mem.ReadAt(b, from)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EFAULT) {
			t.Fatal(err)
		}
		if bytes.Contains(b[:n], text) {
			return true
		}
	}
	return false
}

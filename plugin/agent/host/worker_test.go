//go:build linux && cgo

package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
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
	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/bridge/bridgetest"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
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

// moodyRig is a rig whose key is in SoftHSM, behind a library with moods, held
// by a worker process.
type moodyRig struct {
	*rig
	mood string // the file that says it
	pin  string // made up anew, so that no program has it in its text
}

func newMoodyRig(t *testing.T) moodyRig {
	t.Helper()
	need.Program(t, "cc")
	typed := rand.Text()
	soft := hsmtest.StartSoftHSM(t, hsmtest.SoftToken{Label: "moody", PIN: typed})
	dir := t.TempDir()
	headers, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/miekg/pkcs11").Output()
	check(t, err)
	library := filepath.Join(dir, "moody.so")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-I", strings.TrimSpace(string(headers)), "-o", library,
		"testdata/moody.c", "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := moodyRig{rig: &rig{t: t, api: bridgetest.New(t, bridgetest.Options{})}, mood: filepath.Join(dir, "mood"),
		pin: typed}
	for k, v := range map[string]string{"MOODY_REAL": soft.Module, "MOODY_FILE": m.mood, testModule: library,
		home.EnvHome: dir} {
		t.Setenv(k, v)
	}
	m.dirs, err = home.FromEnv(os.Getenv)
	check(t, err)
	check(t, m.dirs.Prepare())
	m.store = enrollment.NewStore(m.dirs)
	m.ep, err = loopback.Setup(m.dirs)
	check(t, err)

	d := driversOf(library)
	tok, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePKCS11, Token: "moody"})
	check(t, err)
	slot, err := tok.Generate(t.Context(), hsm.GenerateOptions{Label: "kubehsm"}, hsmtest.Typing(t, typed))
	check(t, err)
	check(t, errors.Join(tok.Close(), d.Close()))
	hash, err := hsm.Fingerprint(slot.Key.Public)
	check(t, err)
	m.e = enrollment.Enrollment{Name: "prod", Key: slot.URI, KeyHash: hash, User: "alice", Created: time.Now(),
		Cluster: cluster.Cluster{Server: m.api.URL, CAData: m.api.CAPEM}}
	check(t, m.store.Save(m.e))
	check(t, m.store.SaveCertificate(m.e, []*x509.Certificate{m.api.Certificate(t, slot.Key.Public, "alice", time.Hour)}))
	return m
}

// serveHere runs the agent in this process, its workers in theirs.
func (m moodyRig) serveHere(o Options, longest time.Duration) {
	m.t.Helper()
	exe, err := os.Executable()
	check(m.t, err)
	o.Tokens = worker.New(worker.Options{Exe: exe, Codes: message.Codes(), Dismissed: message.ErrLocked, Longest: longest},
		nil)
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

// TestHangingLoginIsTold: who has typed the PIN is told which library is awaited, long before
// it is given up.
func TestHangingLoginIsTold(t *testing.T) {
	m := newMoodyRig(t)
	m.serveHere(Options{}, 5*time.Second)
	m.feel("hang-login")
	told := make(chan ask.Wait, 1)
	for name, try := range map[string]func(*client.Client, hsm.Prompter) error{
		"kubectl": func(c *client.Client, p hsm.Prompter) error { _, err := m.prepare(c, caller(1), p); return err },
		"unlock":  func(c *client.Client, p hsm.Prompter) error { return c.Unlock(t.Context(), "prod", p) },
	} {
		c := m.dial()
		c.Waiting = func(w ask.Wait) (done func()) {
			told <- w
			return func() {}
		}
		err := try(c, hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
		if !errors.Is(err, hsm.ErrModule) {
			t.Errorf("%s: %v", name, err)
		}
		select {
		case w := <-told:
			if w.For != ask.ForLibrary || !strings.Contains(w.Token, "moody.so") {
				t.Errorf("%s: told %+v", name, w)
			}
		default:
			t.Errorf("%s: told nothing", name)
		}
	}
}

// TestLibraryHangs: the person is not kept waiting for ever, nor told that the
// PIN was wrong.
func TestLibraryHangs(t *testing.T) {
	for mood, pins := range map[string]int{"hang": 1, "hang-login": 1} {
		t.Run(mood, func(t *testing.T) {
			m := newMoodyRig(t)
			m.serveHere(Options{}, 5*time.Second)
			m.feel(mood)
			script := hsmtest.NewScript(t, hsmtest.PIN(m.pin))
			_, err := m.signIn(script)
			if !errors.Is(err, hsm.ErrModule) || !strings.Contains(err.Error(), "did not answer for 5 seconds") {
				t.Fatal(err)
			}
			if n := len(script.PINs()); n != pins {
				t.Errorf("the PIN was asked %d times", n)
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
		_, err := m.dial().Prepare(ctx, client.PrepareRequest{Enrollment: "prod", Client: caller(2)},
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
	for _, how := range []string{"workers", "workers, soon idle"} {
		t.Run(how, func(t *testing.T) {
			m := newMoodyRig(t)
			t.Setenv(agentProgram, how)
			exe, err := os.Executable()
			check(t, err)
			client, err := client.EnsureProgram(t.Context(), m.dirs, client.Program{Path: exe})
			check(t, err)
			defer client.Stop(context.Background())
			agentPID := m.status().PID
			if agentPID == os.Getpid() {
				t.Fatal("the agent is this process")
			}
			_, err = m.prepare(client, caller(1), hsmtest.NewScript(t, hsmtest.PIN(m.pin)))
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

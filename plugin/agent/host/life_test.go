package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/consent"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/plugin/process/child"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestLockCutsEverything(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	resp, err := r.http(s).Get(r.ep.URL("prod") + "/watch")
	check(t, err)
	defer resp.Body.Close()
	check(t, only(r.dial().Lock(context.Background())))
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the watch ended as if it were whole")
	}
	if code, _ := r.get(s, "/version"); code != 401 {
		t.Errorf("the old session still works: %d", code)
	}
	if st := r.status(); len(st.Sessions) != 0 || len(st.Upstreams) != 0 || st.Tokens[0].Unlocked || st.Signatures != 1 {
		t.Errorf("%+v", st)
	}
	poll.Until(t, "the server sees nobody", func() bool { return r.api.Watchers() == 0 })
	// Unlocking takes the PIN and, as the tickets are gone, a signature.
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	if n := r.token.Signatures(); n != 2 {
		t.Errorf("%d signatures", n)
	}
}

// TestUnlockWakesPrograms: a program that runs on and does not run the plugin again is served
// after the next unlock, and that is on record.
func TestUnlockWakesPrograms(t *testing.T) {
	r := newRig(t, rigOptions{})
	s, err := r.prepare(r.dial(), process.This(), hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, err)
	if code, _ := r.get(s, "/version"); code != 200 {
		t.Fatalf("at first: %d", code)
	}
	check(t, only(r.dial().Lock(context.Background())))
	if code, body := r.get(s, "/version"); code != 401 || !strings.Contains(body, "the enrollment is locked") {
		t.Fatalf("locked: %d %s", code, body)
	}
	check(t, r.dial().Unlock(context.Background(), "prod", hsmtest.NewScript(t, hsmtest.PIN(pin))))
	if code, body := r.get(s, "/version"); code != 200 {
		t.Fatalf("unlocked: %d %s", code, body)
	}
	if n := len(r.recordsOf(audit.Session)); n != 2 {
		t.Errorf("%d sessions on record", n)
	}
}

// TestUnlockWakesNoOther: a program is not served after an unlock if its enrollment has been
// changed since, as it is not where that happens without a lock: it may lead to another server,
// or ask for more.
func TestUnlockWakesNoOther(t *testing.T) {
	r := newRig(t, rigOptions{})
	s, err := r.prepare(r.dial(), process.This(), hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, err)
	if code, _ := r.get(s, "/version"); code != 200 {
		t.Fatalf("at first: %d", code)
	}
	check(t, only(r.dial().Lock(context.Background())))
	r.e.Policy = consent.Writes
	r.e = r.save(r.e)
	check(t, r.dial().Unlock(context.Background(), "prod", hsmtest.NewScript(t, hsmtest.PIN(pin))))
	if code, body := r.get(s, "/version"); code != 401 || !strings.Contains(body, "unknown session") {
		t.Fatalf("unlocked: %d %s", code, body)
	}
}

// forgetful cannot tell at first whether a token is there, as a smart card
// service that is started again.
type forgetful struct {
	worker.Tokens
	asked atomic.Int32
}

func (f *forgetful) Removed(ctx context.Context, t worker.Token) error {
	if f.asked.Add(1) == 1 {
		return errors.New("the smart card service has ended")
	}
	return f.Tokens.Removed(ctx, t)
}

// TestRemovalIsSeenAfterAFailedLook: the look after a token goes on.
func TestRemovalIsSeenAfterAFailedLook(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{Tokens: &forgetful{Tokens: worker.InProcess(hsm.Drivers{keepOpen{r.fake}})}})
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.token.Unplug()
	poll.Until(t, "the removal has locked", func() bool { return len(r.status().Sessions) == 0 })
}

func TestLockEndsAPrompt(t *testing.T) {
	r := newRig(t, rigOptions{})
	up := make(chan struct{})
	c := r.dial()
	result := make(chan error, 1)
	go func() {
		_, err := r.prepare(c, caller(1), hsmtest.NewScript(t, hsmtest.Hang(up)))
		result <- err
	}()
	<-up
	check(t, only(r.dial().Lock(context.Background())))
	if err := <-result; err == nil || !strings.Contains(err.Error(), "locked") {
		t.Fatal(err)
	}
}

func TestUnlockAhead(t *testing.T) {
	r := newRig(t, rigOptions{})
	script := hsmtest.NewScript(t, hsmtest.PIN(pin))
	check(t, r.dial().Unlock(context.Background(), "prod", script))
	check(t, r.dial().Unlock(context.Background(), "prod", nil))
	r.mustPrepare(nil)
	if got := script.PINs(); got[0].Purpose.Action != "unlock the token" || got[0].Purpose.Cluster != "prod" {
		t.Fatalf("%+v", got)
	}
}

// TestUnlockEndsRefusals: a program that was refused a moment ago is not refused once its
// user has unlocked the token.
func TestUnlockEndsRefusals(t *testing.T) {
	r := newRig(t, rigOptions{})
	if _, err := r.prepare(r.dial(), caller(1), hsmtest.NewScript(t, hsmtest.Cancel())); !errors.Is(err,
		hsm.ErrCancelled) {
		t.Fatal(err)
	}
	if _, err := r.prepare(r.dial(), caller(1), nil); !errors.Is(err, hsm.ErrCancelled) { // the person is not asked again
		t.Fatal(err)
	}
	check(t, r.dial().Unlock(t.Context(), "prod", hsmtest.NewScript(t, hsmtest.PIN(pin))))
	_, err := r.prepare(r.dial(), caller(1), nil)
	check(t, err)
}

// TestUnlockWindow: a token is locked when it is idle, and when it was unlocked for too long,
// as a stream in flight keeps it. Both are on record.
func TestUnlockWindow(t *testing.T) {
	r := newRig(t, rigOptions{})
	now := time.Now()
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	if d := r.status().Tokens[0].Until.Sub(now); d < 29*time.Minute || d > 31*time.Minute {
		t.Fatalf("for %s", d)
	}
	r.agent.sweep(now.Add(29 * time.Minute))
	if !r.status().Tokens[0].Unlocked {
		t.Fatal("locked too soon")
	}
	r.agent.sweep(now.Add(31 * time.Minute))
	if s := r.status(); s.Tokens[0].Unlocked || len(s.Upstreams) != 0 || len(s.Sessions) != 0 {
		t.Fatalf("not locked when idle: %+v", s)
	}
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.agent.sweep(time.Now().Add(9 * time.Hour))
	if r.status().Tokens[0].Unlocked {
		t.Fatal("unlocked for more than the longest time")
	}
	r.end()
	for _, rec := range r.recorded("agent-start", "unlock granted", "signature granted sign-in", "session granted", "lock idle",
		"unlock granted", "signature granted sign-in", "session granted", "lock longest-time", "agent-stop signal") {
		if rec.Event == audit.Lock && rec.Token.Token != r.e.Key.Token {
			t.Errorf("%+v", rec)
		}
	}
}

func TestIdleAgentEnds(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{IdleTimeout: time.Nanosecond, sweepEvery: time.Millisecond})
	check(t, <-r.done)
	r.done = nil
	if _, err := client.Dial(context.Background(), r.dirs); !errors.Is(err, client.ErrNotRunning) {
		t.Fatal(err)
	}
}

func TestSessionKeepsTheAgent(t *testing.T) {
	r := newRig(t, rigOptions{})
	if !r.agent.sweep(time.Now().Add(2 * time.Hour)) {
		t.Fatal("would live for ever")
	}
	check(t, only(r.agent.sessions.Issue("prod", caller(1), nil)))
	if r.agent.sweep(time.Now().Add(2 * time.Hour)) {
		t.Fatal("would end under a session")
	}
}

func TestStop(t *testing.T) {
	r := newRig(t, rigOptions{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	check(t, only(r.dial().Stop(context.Background())))
	check(t, <-r.done)
	r.done = nil
	if _, err := os.Stat(r.dirs.Socket()); err == nil {
		t.Error("the socket is still there")
	}
	if _, err := client.Dial(context.Background(), r.dirs); !errors.Is(err, client.ErrNotRunning) ||
		hinting.Of(err) == "" {
		t.Error(err)
	}
	// The next agent is another bridge to the old certificate: 401 in words.
	r.serve(Options{})
	if code, body := r.get(s, "/version"); code != 401 || !strings.Contains(body, "run the command again") {
		t.Errorf("%d %s", code, body)
	}
}

// At the last logout the session folder goes, and with it socket and lock; the
// agent may be left.
func TestAgentWithoutASocketEnds(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	r.serve(Options{sweepEvery: time.Millisecond})
	r.removeRun()
	check(t, <-r.done)
	r.done = nil
	// The next one finds the bridge's port free.
	r.serve(Options{})
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
}

// removeRun removes the run folder below an agent, which may just make its other
// socket there.
func (r *rig) removeRun() {
	r.t.Helper()
	poll.Until(r.t, "the run folder can be removed", func() bool { return os.RemoveAll(r.dirs.Run) == nil })
}

func TestEndingAgentLeavesItsSuccessorsSocket(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.removeRun()
	end, done := r.cancel, r.done
	r.serve(Options{})
	end()
	check(t, <-done)
	check(t, only(r.dial().Lock(context.Background())))
}

func TestSecondAgentYields(t *testing.T) {
	r := newRig(t, rigOptions{})
	pr, pw, err := os.Pipe()
	check(t, err)
	check(t, Serve(context.Background(), Options{Dirs: r.dirs, Tokens: worker.InProcess(hsm.Drivers{keepOpen{r.fake}}),
		Ready: pw}))
	b, err := io.ReadAll(pr)
	check(t, err)
	if string(b) != child.ReadyLine {
		t.Fatalf("%q", b)
	}
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
}

// TestLinkedLock: no file is made where a link in the lock's place leads.
func TestLinkedLock(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	victim := filepath.Join(t.TempDir(), "victim")
	check(t, os.Symlink(victim, filepath.Join(r.dirs.Run, "agent.lock")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Serve(ctx, Options{Dirs: r.dirs, Version: "test", Tokens: worker.InProcess(nil),
		made: func(*agent) { cancel() }})
	if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(victim); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where the link leads: %v", err)
	}
}

// The PIN is only ever raw bytes in a frame of its own, and nowhere in the log.
func TestPINCrossesRaw(t *testing.T) {
	r := newRig(t, rigOptions{})
	var tap wiretap
	tapped := r.dirs
	tapped.Run = t.TempDir()
	tap.proxy(t, tapped.Socket(), r.dirs.Socket())
	c, err := client.Dial(context.Background(), tapped)
	check(t, err)
	defer c.Close()
	if _, err := r.prepare(c, caller(1), hsmtest.NewScript(t, hsmtest.PIN("000000"), hsmtest.PIN(pin))); err != nil {
		t.Fatal(err)
	}
	tap.mu.Lock()
	defer tap.mu.Unlock()
	var secrets, texts int
	for _, f := range tap.frames {
		holds := bytes.Contains(f.Payload, []byte(pin))
		switch {
		case f.Kind == wire.KindSecret && holds && string(f.Payload) == pin:
			secrets++
		case f.Kind == wire.KindJSON && !holds:
			texts++
		case f.Kind == wire.KindJSON:
			t.Fatalf("the PIN is in a message: %s", f.Payload)
		}
	}
	if secrets != 1 || texts < 5 {
		t.Fatalf("%d secrets, %d messages", secrets, texts)
	}
	b, err := os.ReadFile(r.dirs.LogFile())
	check(t, err)
	for _, secret := range []string{pin, "000000", "PRIVATE", "CERTIFICATE"} {
		if bytes.Contains(b, []byte(secret)) || len(b) == 0 {
			t.Fatalf("%q in the log: %s", secret, b)
		}
	}
	for path, mode := range map[string]os.FileMode{r.dirs.LogFile(): 0o600, r.dirs.Socket(): 0o600, r.dirs.Run: 0o700,
		r.dirs.State: 0o700} {
		info, err := os.Stat(path)
		check(t, err)
		if info.Mode().Perm() != mode {
			t.Errorf("%s: %v", path, info.Mode())
		}
	}
}

func TestJunkOnTheSocket(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, junk := range []string{"GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xffJ", "\x00\x00\x00\x02J{}",
		"\x00\x00\x00\x01Jx", "\x00\x00\x00\x04S1234",
		strings.Repeat("\x00\x00\x00\x02J{}", 100)} {
		c, err := net.Dial("unix", r.dirs.Socket())
		check(t, err)
		_, err = io.WriteString(c, junk)
		check(t, err)
		check(t, c.(*net.UnixConn).CloseWrite())
		b, _ := io.ReadAll(io.LimitReader(c, 1<<20)) // ends: nothing hangs
		if strings.HasPrefix(junk, "\x00\x00\x00\x02J{}") && !bytes.Contains(b, []byte(`"version"`)) {
			t.Errorf("%q: %q", junk, b)
		}
		check(t, c.Close())
	}
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
}

func TestNothingLeaks(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	before := runtime.NumGoroutine()
	r.serve(Options{})
	s := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	for range 20 {
		r.get(s, "/version")
	}
	resp, err := r.http(s).Get(r.ep.URL("prod") + "/watch")
	check(t, err)
	r.end()
	_, _ = io.ReadAll(resp.Body)
	check(t, resp.Body.Close())
	// The test's own clients are left: their idle connections were cut with the bridge.
	poll.Until(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// program has Ensure start the test binary as the agent.
func program(t *testing.T, d home.Dirs, mode string) string {
	t.Helper()
	t.Setenv(home.EnvHome, d.Home)
	t.Setenv(agentProgram, mode)
	for _, name := range requests {
		t.Setenv(name, "{}")
	}
	exe, err := os.Executable()
	check(t, err)
	return exe
}

func TestEnsureStartsOneAgent(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	exe := program(t, r.dirs, "1")
	pid := r.ensureByMany(client.Program{Path: exe})
	if pid == 0 || pid == os.Getpid() {
		t.Fatal(pid)
	}
	if sid, err := getsid(pid); err == nil && sid != pid {
		t.Errorf("the agent is in session %d", sid)
	}
	// Killed, it leaves its socket and lock behind; the next one takes over.
	p, err := os.FindProcess(pid)
	check(t, err)
	check(t, p.Signal(syscall.SIGKILL))
	poll.Until(t, "the agent is gone", func() bool { return !r.runs() })
	c, err := client.EnsureProgram(context.Background(), r.dirs, client.Program{Path: exe})
	check(t, err)
	defer c.Close()
	s, err := c.Status(context.Background())
	check(t, err)
	if s.PID == pid {
		t.Fatal("the dead answer")
	}
	if runtime.GOOS == "linux" {
		if _, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID) + "/mem"); err == nil && os.Geteuid() != 0 {
			t.Error("its memory can be read")
		}
	}
	check(t, only(c.Stop(context.Background())))
}

// ensureByMany has ten clients get an agent at once, which is one.
func (r *rig) ensureByMany(program client.Program) (pid int) {
	r.t.Helper()
	var wg sync.WaitGroup
	pids := make([]int, 10)
	for i := range pids {
		wg.Go(func() {
			c, err := client.EnsureProgram(context.Background(), r.dirs, program)
			if err != nil {
				r.t.Error(err)
				return
			}
			defer c.Close()
			s, err := c.Status(context.Background())
			if err != nil {
				r.t.Error(err)
			}
			pids[i] = s.PID
		})
	}
	wg.Wait()
	if pids = slices.Compact(pids); len(pids) != 1 {
		r.t.Fatalf("several agents: %v", pids)
	}
	return pids[0]
}

func TestEnsureRepeatsWhyItFailed(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	_, err := client.EnsureProgram(context.Background(), r.dirs, client.Program{Path: program(t, r.dirs, "fail")})
	if err == nil || !strings.Contains(err.Error(), "a reason to fail") ||
		!strings.Contains(hinting.Of(err), r.dirs.LogFile()) {
		t.Fatalf("%v (hint: %s)", err, hinting.Of(err))
	}
	if _, err := client.EnsureProgram(context.Background(), r.dirs, client.Program{Path: "/nonexistent/kubehsm"}); err == nil {
		t.Fatal("started nothing")
	}
}

// kubectl waits for the end of its plugin's output: the agent must not hold it.
// Nor does it hold what a shell has opened for its commands, such as the lock of
// flock(1).
func TestEnsureLeavesStdoutAlone(t *testing.T) {
	if os.Getenv("KUBEHSM_TEST_PLUGIN") != "" {
		d, err := home.FromEnv(os.Getenv)
		check(t, err)
		exe, err := os.Executable()
		check(t, err)
		c, err := client.EnsureProgram(context.Background(), d, client.Program{Path: exe})
		check(t, err)
		check(t, c.Close())
		return
	}
	r := newRig(t, rigOptions{idle: true})
	exe := program(t, r.dirs, "1")
	cmd := exec.Command(exe, "-test.run=^TestEnsureLeavesStdoutAlone$")
	cmd.Env = append(os.Environ(), "KUBEHSM_TEST_PLUGIN=1")
	ends, opened, err := os.Pipe()
	check(t, err)
	defer ends.Close()
	cmd.ExtraFiles = []*os.File{opened, opened, opened}
	out, err := cmd.CombinedOutput() // returns at the end of the output
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	check(t, opened.Close())
	check(t, ends.SetReadDeadline(time.Now().Add(20*time.Second)))
	if _, err := ends.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the agent holds what its starter had inherited: %v", err)
	}
	c := r.dial()
	s, err := c.Status(context.Background())
	check(t, err)
	if s.PID == os.Getpid() {
		t.Fatal("no agent of its own")
	}
	check(t, only(c.Stop(context.Background())))
}

// TestSuspendEndsTheWindow: a machine that slept for long wakes up locked. Its
// monotonic clock may have stood still meanwhile, so the wall clock counts too,
// and that one set back does not prolong anything.
func TestSuspendEndsTheWindow(t *testing.T) {
	from := time.Now()
	wall := func(d time.Duration) time.Time { return from.Round(0).Add(d) } // without a monotonic reading
	if got := elapsed(from, wall(10*time.Hour)); got != 10*time.Hour {
		t.Errorf("ten hours of sleep count as %v", got)
	}
	if got := elapsed(from, from.Add(time.Hour)); got != time.Hour {
		t.Errorf("an hour counts as %v", got)
	}

	r := newRig(t, rigOptions{})
	r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	r.mustAgent(func(a *agent) {
		a.sweep(time.Now().Round(0).Add(29 * time.Minute))
		if !a.status(false).Tokens[0].Unlocked {
			t.Error("locked too soon")
		}
		a.sweep(time.Now().Round(0).Add(31 * time.Minute))
		if a.status(false).Tokens[0].Unlocked {
			t.Error("still unlocked")
		}
	})
}

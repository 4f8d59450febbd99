package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/worker"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestReplaces(t *testing.T) {
	at := func(version, path string, minute int) wire.Build {
		return wire.Build{Version: version, Path: path, Size: int64(1000 + minute), Modified: time.Unix(int64(60*minute), 0)}
	}
	for _, c := range []struct {
		name     string
		mine     wire.Build
		theirs   wire.Build
		want     bool
		wantBack bool
	}{
		{"the same", at("v1.0.0", "/a", 1), at("v1.0.0", "/a", 1), false, false},
		{"built anew", at("(devel)", "/a", 2), at("(devel)", "/a", 1), true, true},
		{"installed anew, an older one", at("v1.0.0", "/a", 1), at("v1.1.0", "/a", 2), true, true},
		{"side by side", at("v1.10.0", "/a", 1), at("v1.9.0", "/b", 2), true, false},
		{"side by side, equal", at("v1.0.0", "/a", 1), at("v1.0.0", "/b", 2), false, false},
		{"a release candidate", at("v1.0.0", "/a", 1), at("v1.0.0-rc.1", "/b", 2), true, false},
		{"two without a version", at("", "/a", 2), at("(devel)", "/b", 1), true, false},
		{"one without a version", at("", "/a", 2), at("v1.0.0", "/b", 1), false, false},
	} {
		if got, back := c.mine.Replaces(c.theirs), c.theirs.Replaces(c.mine); got != c.want || back != c.wantBack {
			t.Errorf("%s: %t, and the other way %t", c.name, got, back)
		}
	}
}

// copyProgram puts the test binary at path, as another file.
func copyProgram(t *testing.T, path string) {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	b, err := os.ReadFile(exe)
	check(t, err)
	check(t, os.WriteFile(path+".new", b, 0o700))
	check(t, os.Rename(path+".new", path))
}

// newerProgram is newer by its time: neither has a version.
func newerProgram(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "newer")
	copyProgram(t, path)
	check(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
	return path
}

// ensure gets the agent for the program at path.
func (r *rig) ensure(path, version string) (message.Status, []string) {
	r.t.Helper()
	r.t.Setenv(agentVersion, version)
	var said []string
	c, err := client.EnsureProgram(context.Background(), r.dirs,
		client.Program{Path: path, Version: version, Say: func(s string) { said = append(said, s) }})
	check(r.t, err)
	defer c.Close()
	s, err := c.Status(context.Background())
	check(r.t, err)
	return s, said
}

func (r *rig) stopAgent() {
	r.t.Helper()
	c, err := client.Dial(context.Background(), r.dirs)
	if errors.Is(err, client.ErrNotRunning) {
		return
	}
	check(r.t, err)
	check(r.t, only(c.Stop(context.Background())))
	check(r.t, c.Close())
}

// Another file at the same path, then another version at another path.
func TestUpgrade(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	program(t, r.dirs, "1")
	t.Cleanup(r.stopAgent)
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	copyProgram(t, a)
	first, said := r.ensure(a, "v1.0.0")
	if again, _ := r.ensure(a, "v1.0.0"); again.PID != first.PID || len(said) > 0 || first.Version != "v1.0.0" {
		t.Fatalf("%+v, then %+v, said %q", first, again, said)
	}
	copyProgram(t, a)
	second, said := r.ensure(a, "v1.0.0")
	if second.PID == first.PID || len(said) > 0 { // nothing was unlocked: nothing to say
		t.Fatalf("%+v, then %+v, said %q", first, second, said)
	}
	copyProgram(t, b)
	third, _ := r.ensure(b, "v1.1.0")
	if third.PID == second.PID || third.Version != "v1.1.0" || third.Newer != nil {
		t.Fatalf("%+v, then %+v", second, third)
	}
	if s, _ := r.ensure(a, "v1.0.0"); s.PID != third.PID { // the older one uses the newer agent
		t.Fatalf("%+v, then %+v", third, s)
	}
	// Many at once replace it once.
	copyProgram(t, b)
	if pid := r.ensureByMany(client.Program{Path: b, Version: "v1.1.0"}); pid == third.PID {
		t.Fatalf("%d was not replaced", pid)
	}
	all, lines := r.records()
	replaced := 0
	for i := range all {
		if lines[i] == "agent-stop replaced" {
			replaced++
		}
	}
	if replaced != 3 {
		t.Fatalf("%d agents were replaced:\n%s", replaced, strings.Join(lines, "\n"))
	}
}

// An unlocked agent gives way only to a program that says so.
func TestUpgradeUnlocked(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	exe := program(t, r.dirs, "1")
	t.Cleanup(r.stopAgent)
	r.serve(Options{quiet: time.Nanosecond})
	session := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	newer := newerProgram(t)

	c, err := client.EnsureProgram(context.Background(), r.dirs, client.Program{Path: newer})
	check(t, err)
	s, err := c.Status(context.Background())
	check(t, err)
	check(t, c.Close())
	if s.PID != os.Getpid() || s.Newer == nil || s.Newer.Path != newer {
		t.Fatalf("%+v", s)
	}
	if s, said := r.ensure(exe, ""); s.PID != os.Getpid() || len(said) > 0 { // the agent runs the same program
		t.Fatalf("%+v, said %q", s, said)
	}
	s, said := r.ensure(newer, "")
	if s.PID == os.Getpid() || len(said) != 1 || !strings.Contains(said[0], "asks for the PIN") ||
		!strings.Contains(said[0], newer) {
		t.Fatalf("%+v, said %q", s, said)
	}
	check(t, <-r.done)
	r.done = nil
	// The replaced agent's session heals by a 401, upon which client-go asks anew.
	if code, body := r.get(session, "/version"); code != 401 || !strings.Contains(body, "run the command again") {
		t.Fatalf("%d %s", code, body)
	}
}

// Open streams keep the agent; it gives way when they have ended.
func TestUpgradeWaitsForStreams(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	program(t, r.dirs, "1")
	t.Cleanup(r.stopAgent)
	r.serve(Options{quiet: time.Nanosecond})
	session := r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
	newer := newerProgram(t)
	sees, _, end := r.watch(session)
	s, said := r.ensure(newer, "")
	if s.PID != os.Getpid() || s.Newer == nil || len(said) > 0 {
		t.Fatalf("%+v, said %q", s, said)
	}
	sees("still here")
	end()
	poll.Until(t, "the stream is gone", func() bool { return r.agent.sessions.Open() == 0 })
	if s, _ = r.ensure(newer, ""); s.PID == os.Getpid() {
		t.Fatal("it stays for ever")
	}
	check(t, <-r.done)
	r.done = nil
}

func TestInUse(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.mustAgent(func(a *agent) {
		now := time.Now()
		check(t, a.life.inUse(now))
		r.mustPrepare(hsmtest.NewScript(t, hsmtest.PIN(pin)))
		if err := a.life.inUse(now.Add(time.Second)); !errors.Is(err, message.ErrInUse) { // a client may come at any moment
			t.Error(err)
		}
		check(t, a.life.inUse(now.Add(time.Minute)))
		check(t, only(a.locks.all(message.LockAsked, nil)))
	})
	up := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	c := r.dial()
	go func() { result <- c.Unlock(ctx, "prod", hsmtest.NewScript(t, hsmtest.Hang(up))) }()
	<-up
	if err := r.agent.life.inUse(time.Now().Add(time.Minute)); !errors.Is(err, message.ErrInUse) {
		t.Error(err)
	}
	cancel()
	<-result
	poll.Until(t, "nobody is asked any more",
		func() bool { return r.agent.life.inUse(time.Now().Add(time.Minute)) == nil })
}

// An agent of another protocol is replaced as well; one that may not be is an
// error with a way out, which works across versions.
func TestOtherProtocol(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	program(t, r.dirs, "other protocol")
	t.Cleanup(r.stopAgent)
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	copyProgram(t, a)
	copyProgram(t, b)
	start := func(path, version string) {
		t.Helper()
		t.Setenv(agentProgram, "other protocol")
		t.Setenv(agentVersion, version)
		check(t, client.Start(context.Background(), r.dirs, path))
		t.Setenv(agentProgram, "1")
	}
	start(a, "v1.0.0")
	_, err := r.prepare(r.dial(), caller(1), nil)
	if !errors.Is(err, message.ErrVersion) || !strings.Contains(hint.Of(err), "agent stop") {
		t.Fatal(err)
	}
	if s, _ := r.ensure(b, "v1.1.0"); s.Version != "v1.1.0" {
		t.Fatalf("%+v", s)
	}
	r.stopAgent()
	start(a, "v1.2.0")
	_, err = client.EnsureProgram(context.Background(), r.dirs, client.Program{Path: b, Version: "v1.1.0"})
	if !errors.Is(err, message.ErrVersion) || !strings.Contains(err.Error(), "v1.2.0") ||
		!strings.Contains(hint.Of(err), "agent stop") {
		t.Fatal(err)
	}
	r.stopAgent()
}

// A supervised agent does not end when idle, and ends with an error when it is
// replaced: its supervisor starts it again.
func TestSupervised(t *testing.T) {
	r := newRig(t, rigOptions{idle: true})
	exe := filepath.Join(t.TempDir(), "a")
	program(t, r.dirs, "supervised")
	t.Cleanup(r.stopAgent)
	copyProgram(t, exe)
	t.Setenv(agentVersion, "v1.0.0")
	for _, name := range requests {
		check(t, os.Unsetenv(name)) // the agent under test does not unset these; program restores them
	}
	first := exec.Command(exe, "agent", "serve")
	var words strings.Builder
	first.Stderr = &words
	check(t, first.Start())
	poll.Until(t, "it listens", r.runs)
	// Another path: the supervisor would start the old one again.
	other := filepath.Join(t.TempDir(), "b")
	copyProgram(t, other)
	if s, _ := r.ensure(other, "v1.1.0"); s.PID != first.Process.Pid || !s.Supervised || s.Newer == nil {
		t.Fatalf("%+v", s)
	}
	copyProgram(t, exe)
	restarted := make(chan error, 1)
	go func() { // the supervisor
		err := first.Wait()
		if err == nil || !strings.Contains(words.String(), ErrReplaced.Error()) {
			restarted <- errors.New("it ended without an error: " + words.String())
			return
		}
		second := exec.Command(exe, "agent", "serve")
		err = second.Start()
		restarted <- err
		_ = second.Wait()
	}()
	s, _ := r.ensure(exe, "v1.0.0")
	check(t, <-restarted)
	if s.PID == first.Process.Pid || !s.Supervised {
		t.Fatalf("%+v", s)
	}
	a, err := newAgent(
		Options{Dirs: r.dirs, Tokens: worker.InProcess(nil), Supervised: true},
		wire.Build{},
		discard(),
		nil,
		func() {},
	)
	check(t, err)
	if a.sweep(time.Now().Add(24 * time.Hour)) {
		t.Error("it would end")
	}
}

// Memory is given back once after each time of use, not while it lasts.
func TestTrim(t *testing.T) {
	l := newLife(func() {}, nil, time.Hour, time.Second)
	frees := func(at time.Time) bool {
		before := l.trimmed.Load()
		l.trim(at, time.Time{}, 15*time.Second)
		return l.trimmed.Load() != before
	}
	start := *l.lastActive.Load()
	if frees(start.Add(time.Second)) || !frees(start.Add(time.Minute)) || frees(start.Add(time.Hour)) {
		t.Error("not once when idle")
	}
	l.active()
	if last := *l.lastActive.Load(); frees(last) || !frees(last.Add(time.Minute)) {
		t.Error("not once more after use")
	}
}

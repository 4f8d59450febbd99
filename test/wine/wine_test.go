//go:build wine && linux && cgo

package wine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

// programs is the folder with kubehsm.exe and kubectl.exe, in the Debian folder that
// KUBEHSM_WINE names.
const programs = "/opt/kubehsm"

const (
	ownPIN    = "73916402"
	pinPrompt = "needs its PIV PIN"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(inside{m})) }

// inside is what runs in the namespaces: the control plane must, too.
type inside struct{ m *testing.M }

func (i inside) Run() int {
	root := os.Getenv("KUBEHSM_WINE")
	for _, dir := range []string{"/proc", "/dev", "/sys", "/run", "/tmp"} {
		if err := unix.Mount(dir, root+dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			fmt.Fprintf(os.Stderr, "mount %s into the folder of Wine: %v\n", dir, err)
			return 1
		}
	}
	return controlplane.Main(i.m)
}

// person is somebody with a card and a Windows.
type person struct {
	t       testing.TB
	card    *vcard.Card
	cluster *controlplane.Cluster
	root    string
	// kubeconfig is its path here and, with Z:, there.
	kubeconfig string
	env        []string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	vcard.Private(t)
	p := &person{t: t, root: os.Getenv("KUBEHSM_WINE"), cluster: controlplane.ForTest(t)}
	must.OK(t, lab.Rights(t.Context(), p.cluster))
	readers := vcard.ForTest(t)
	p.card = vcard.New(vcard.Config{Serial: 12345678})
	readers.Insert(t, 0, p.card)
	dir := t.TempDir()
	p.kubeconfig = filepath.Join(dir, "kubeconfig")
	must.OK(t, p.cluster.WriteKubeconfig(p.kubeconfig, lab.Context, lab.Filer, lab.FilersGroup))
	p.env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "TERM=xterm-256color",
		"WINEPREFIX=" + filepath.Join(dir, "wine"), "WINEDEBUG=-all", "WINEPATH=" + windows(programs),
		"LD_LIBRARY_PATH=/opt/pcsc", "KUBECONFIG=" + windows(p.kubeconfig),
	}
	t.Cleanup(func() {
		if t.Failed() {
			b, _ := os.ReadFile(p.state("agent.log")) // without a log, nothing was logged
			t.Logf("the agent's log:\n%s", b)
		}
		_, _ = p.run("wineserver", "-k") // ends all that runs there
	})
	p.ok("wineboot", "-i")
	return p
}

// windows is a path as Wine's programs see it.
func windows(path string) string { return `Z:` + strings.ReplaceAll(path, "/", `\`) }

// state is the path of a file in the state folder.
func (p *person) state(name string) string {
	return filepath.Join(filepath.Dir(p.kubeconfig), "wine", "drive_c", "users", "root", "AppData", "Local", "kubehsm", name)
}

// argv is how a program of the folder is run, one of ours by its name alone.
func (p *person) argv(program string, args []string) []string {
	if !strings.HasPrefix(program, "wine") {
		args, program = append([]string{programs + "/" + program + ".exe"}, args...), "wine"
	}
	return append([]string{p.root, program}, args...)
}

// run runs a program without a terminal.
func (p *person) run(program string, args ...string) (lab.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chroot", p.argv(program, args)...)
	cmd.Env = p.env
	cmd.WaitDelay = time.Second // Wine's own processes, and the agent, keep the pipes
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	clean := strings.NewReplacer("\r", "")
	return lab.Result{Stdout: clean.Replace(out.String()), Stderr: clean.Replace(stderr.String()),
		Code: cmd.ProcessState.ExitCode()}, err
}

// ok is the output of a program that must succeed.
func (p *person) ok(program string, args ...string) string {
	p.t.Helper()
	out, err := lab.Succeeded(p.run(program, args...))
	if err != nil {
		p.t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return out
}

// terminal runs a program on a terminal, which is its console.
func (p *person) terminal(program string, args ...string) *term.Session {
	p.t.Helper()
	return term.Run(p.t, term.Options{Path: "chroot", Args: p.argv(program, args), Env: p.env,
		Secrets: []string{ownPIN}, Columns: 120, Rows: 60})
}

// answer waits for a prompt and types an answer that must not be shown, and Enter. Wine reads a
// terminal of its own kind; until it has made the terminal raw, Enter is another key.
func (p *person) answer(s *term.Session, prompt, answer string) {
	p.t.Helper()
	s.WaitFor(prompt)
	poll.Until(p.t, "Wine reads keys", func() bool { return !s.Cooked() })
	if answer != "" {
		s.TypeHidden(answer)
	}
	s.Press(term.Enter)
}

// exits waits for the end of a program on a terminal, which must succeed. What it has
// started, an agent, holds the terminal on: not by a handle of its own, but as a process
// of Wine's.
func (p *person) exits(s *term.Session) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	defer cancel()
	code, err := s.ExitCode(ctx)
	if err != nil && !strings.HasSuffix(err.Error(), "holds the terminal") || code != 0 {
		p.t.Fatalf("exit code %d, %v; the screen:\n%s", code, err, s.Screen())
	}
}

// contains checks what a program has said.
func (p *person) contains(said string, want ...string) {
	p.t.Helper()
	for _, w := range want {
		if !strings.Contains(said, w) {
			p.t.Errorf("%q is missing in:\n%s", w, said)
		}
	}
}

// TestWindows takes a new card to a kubectl.exe that works.
func TestWindows(t *testing.T) {
	p := newPerson(t)
	p.contains(p.ok("kubehsm", "version"), "windows/amd64")
	p.contains(p.ok("kubehsm", "token", "list"), "piv:serial=12345678", "default")
	p.contains(p.ok("kubehsm", "agent", "status"), "not running")

	s := p.terminal("kubehsm", "enroll", "--token", "piv:serial=12345678;slot=9a", "--touch-policy", "never", "--user", "jane",
		"--group", lab.DevelopersGroup, "--approve-with", windows(p.cluster.AdminKubeconfig()))
	p.answer(s, "Begin? [Y/n", "")
	p.answer(s, "New PIV PIN:", ownPIN)
	p.answer(s, question.Repeat, ownPIN)
	p.exits(s)
	if !s.Frame().Contains("Enrolled: authenticated as jane") {
		t.Fatal(s.Output())
	}
	p.contains(p.ok("kubectl", "auth", "whoami"), "jane", lab.DevelopersGroup)
	p.contains(p.ok("kubectl", "get", "namespaces", "-o", "name"), "namespace/default\n")
	if _, err := os.Stat(p.state("enrollments")); err != nil {
		t.Error(err)
	}
	p.contains(p.ok("kubehsm", "agent", "status"), "127.0.0.1", lab.Enrolled)
	p.contains(p.ok("kubehsm", "audit"), "kubectl.exe")

	p.ok("kubehsm", "agent", "lock")
	s = p.terminal("kubectl", "get", "namespaces", "-o", "name")
	p.answer(s, "3 tries left", "00000000")
	p.answer(s, "2 tries left", ownPIN)
	p.exits(s)
	if tries, _ := p.card.PINRetries(); tries != 3 || !s.Frame().Contains("namespace/default") {
		t.Errorf("%d tries are left:\n%s", tries, s.Output())
	}
	p.ok("kubehsm", "agent", "lock")
	s = p.terminal("kubehsm", "unlock", lab.Enrolled)
	p.answer(s, pinPrompt, ownPIN)
	p.exits(s)
	p.contains(p.ok("kubectl", "get", "namespaces", "-o", "name"), "namespace/default\n")

	res, err := p.run("kubehsm", "doctor", "--all")
	must.OK(t, err)
	t.Logf("%s", res)
	for _, unix := range []string{"sudo", "chmod", "/usr/", ".local"} {
		if strings.Contains(res.Stdout, unix) {
			t.Errorf("it speaks of %s", unix)
		}
	}
	p.contains(res.Stdout, `AppData\Local\kubehsm`, "kubehsm.exe")

	p.ok("kubehsm", "agent", "stop")
	p.contains(p.ok("kubehsm", "agent", "status"), "not running")
	if p.card.Verified() {
		t.Error("the card is left unlocked")
	}
}

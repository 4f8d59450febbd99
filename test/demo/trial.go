package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// The trial's names. The PIN protects nothing: it is printed, and the token is
// removed with the trial.
const (
	tokenLabel = "kubehsm-demo"
	trialPIN   = "123456"
	contextIn  = "trial"     // the context that the enrollment starts from
	contextOut = "trial-hsm" // the context that it writes
	trialUser  = "demo-user"
	trialGroup = "demo"
)

// marker is the file that says that a folder is a trial's, and may be removed.
const marker = ".kubehsm-demo"

// longestSocket is the longest path of a unix socket (sockaddr_un less its NUL).
const longestSocket = 107

// trial is where everything lives.
type trial struct{ dir string }

func newTrial(dir string) (*trial, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	t := &trial{dir: dir}
	if n := len(t.socket()); n > longestSocket {
		return nil, hint.Withf(
			fmt.Errorf("%s is too deep: the agent's socket would need %d of at most %d bytes", dir, n, longestSocket),
			"choose another folder: make demo DEMO_DIR=/tmp/kubehsm-demo-$USER")
	}
	return t, nil
}

func (t *trial) path(elem ...string) string {
	return filepath.Join(append([]string{t.dir}, elem...)...)
}

func (t *trial) kubehsm() string         { return t.path("bin", "kubehsm") }
func (t *trial) kubectl() string         { return t.path("bin", "kubectl") }
func (t *trial) home() string            { return t.path("home") }
func (t *trial) socket() string          { return t.path("home", "run", "agent.sock") }
func (t *trial) kubeconfig() string      { return t.path("kubeconfig") }
func (t *trial) adminKubeconfig() string { return t.path("admin.kubeconfig") }
func (t *trial) softHSMConfig() string   { return t.path("softhsm", "softhsm2.conf") }
func (t *trial) cluster() string         { return t.path("cluster") }
func (t *trial) upFile() string          { return t.path("up.json") }

// env is the environment of every program that the trial runs: the user's,
// with all that could lead out of the folder replaced.
func (t *trial) env() []string {
	drop := []string{"KUBECONFIG=", "KUBEHSM_", "KUBECTL_", "KUBERNETES_EXEC_INFO=", "SOFTHSM2_CONF=", "TMPDIR=",
		"GOTMPDIR="}
	var env []string
next:
	for _, kv := range os.Environ() {
		for _, d := range drop {
			if strings.HasPrefix(kv, d) {
				continue next
			}
		}
		env = append(env, kv)
	}
	for _, v := range append(t.variables(), variable{"TMPDIR", t.path("tmp")}) {
		env = append(env, v.name+"="+v.value)
	}
	return env
}

type variable struct{ name, value string }

// variables are what env sets; the trial's env file offers them to a shell.
func (t *trial) variables() []variable {
	return []variable{
		{"PATH", t.path("bin") + string(os.PathListSeparator) + os.Getenv("PATH")},
		{"KUBECONFIG", t.kubeconfig()},
		{"KUBECACHEDIR", t.path("kubectl-cache")},
		{"KUBERC", "off"},
		{"KUBEHSM_HOME", t.home()},
		{"SOFTHSM2_CONF", t.softHSMConfig()},
	}
}

// claim makes the folder the trial's. A folder with something else in it is
// left alone.
func (t *trial) claim() error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 && !t.claimed() {
		return hint.Withf(fmt.Errorf("%s is not empty and not a trial's", t.dir), "name an empty or new folder with DEMO_DIR")
	}
	if err := os.Chmod(t.dir, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{"bin", "home", "tmp", "softhsm"} {
		if err := os.MkdirAll(t.path(dir), 0o700); err != nil {
			return err
		}
	}
	return os.WriteFile(t.path(marker), []byte("made by `make demo`; `make demo-down` removes this folder\n"), 0o600)
}

func (t *trial) claimed() bool {
	_, err := os.Stat(t.path(marker))
	return err == nil
}

// lock keeps two runs in one folder apart; the returned function releases it.
func (t *trial) lock(ctx context.Context) (func(), error) {
	l := flock.New(t.path(marker))
	ok, err := l.TryLock()
	if err != nil {
		return nil, err
	}
	if !ok {
		fmt.Println("waiting for another run in this folder to end")
		if _, err := l.TryLockContext(ctx, 200*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for another run: %w", err)
		}
	}
	return func() { _ = l.Close() }, nil // the kernel releases it at the latest at exit
}

// configure writes kubehsm's configuration and a file for the user's shell.
func (t *trial) configure(soft *hsmtest.SoftHSM) error {
	var env strings.Builder
	env.WriteString("# for a shell: . " + quote(t.path("env")) + "\n")
	for _, v := range t.variables() {
		value := quote(v.value)
		if v.name == "PATH" { // the shell's own, not the one of this moment
			value = quote(t.path("bin")) + `:"$PATH"`
		}
		fmt.Fprintf(&env, "export %s=%s\n", v.name, value)
	}
	for path, content := range map[string]string{
		t.path("home", "config.yaml"): fmt.Sprintf("onlyModules: true\nmodules:\n"+
			"  - name: trial\n    path: %q\n    env: {SOFTHSM2_CONF: %q}\n", soft.Module, soft.Conf),
		t.path("env"): env.String(),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// quote writes s so that a POSIX shell reads it as one word.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoteIfNeeded(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n'\"\\$&;|<>()*?[]{}`#~") {
		return quote(s)
	}
	return s
}

//go:build linux

package scenarios

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/term"
)

// enrolled is the name that an enrollment from the lab's context gets.
const enrolled = lab.Context + "-hsm"

// pinPrompt is in the words that ask for a PIN.
const pinPrompt = "needs its PIN"

// user is somebody with a lab, in a test.
type user struct {
	*lab.Lab
	t testing.TB
	// secrets are what no terminal may show.
	secrets []string
}

// newUser makes a lab on the shared control plane.
func newUser(t testing.TB, o lab.Options) *user {
	t.Helper()
	if o.Cluster == nil {
		o.Cluster = controlplane.ForTest(t)
	}
	need.Program(t, "softhsm2-util")
	once, _ := suite.rights.LoadOrStore(o.Cluster, sync.OnceValue(func() error {
		return lab.Rights(context.WithoutCancel(t.Context()), o.Cluster)
	}))
	if err := once.(func() error)(); err != nil {
		t.Fatal(err)
	}
	o.Binary = suite.binary
	l, err := lab.New(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	u := &user{l, t, []string{lab.PIN, lab.SOPIN, wrongPIN}}
	t.Cleanup(func() {
		if log := filepath.Join(l.Home, "state", "agent.log"); t.Failed() {
			b, _ := os.ReadFile(log) // no agent has run if there is no log
			t.Logf("the agent's log:\n%s", b)
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return u
}

// in is the user in a subtest.
func (u *user) in(t testing.TB) *user { return &user{u.Lab, t, u.secrets} }

// ran is the result of a program that could be run.
func (u *user) ran(res lab.Result, err error) lab.Result {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
	return res
}

// ok is the output of a program that succeeded.
func (u *user) ok(res lab.Result, err error) string {
	u.t.Helper()
	if u.ran(res, err).Code != 0 {
		u.t.Fatal(res)
	}
	return res.Stdout
}

// kubehsm runs the program, which must succeed.
func (u *user) kubehsm(args ...string) string {
	u.t.Helper()
	return u.ok(u.Kubehsm(u.t.Context(), args...))
}

// kubectl runs kubectl as the user, which must succeed.
func (u *user) kubectl(args ...string) string {
	u.t.Helper()
	return u.ok(u.Kubectl(u.t.Context(), args...))
}

// admin runs kubectl as the cluster's admin.
func (u *user) admin(args ...string) string {
	u.t.Helper()
	out, err := u.Cluster.Admin(u.t.Context(), "", args...)
	if err != nil {
		u.t.Fatal(err)
	}
	return out
}

// terminal runs a program on a terminal.
func (u *user) terminal(program string, args ...string) *term.Session {
	u.t.Helper()
	return term.Run(u.t, term.Options{Path: program, Args: args, Dir: u.Dir, Env: u.Env(), Secrets: u.secrets,
		Columns: 100, Rows: 30})
}

// sh runs a shell script on a terminal.
func (u *user) sh(script string) *term.Session {
	u.t.Helper()
	return u.terminal("/bin/sh", "-c", script)
}

// unique is a name that no other test, nor the same one again, has in the
// shared cluster.
func unique(name string) string { return name + "-" + strings.ToLower(rand.Text()[:8]) }

// result is what `enroll -o json` prints, as far as tests look at it.
type result struct {
	Name, Context, Kubeconfig, Key, Fingerprint, Request string
	NotAfter                                             time.Time
	User                                                 string
	Groups                                               []string
	Rights                                               bool
	Ask                                                  string
	Notes, Next                                          []string
}

func (u *user) parse(stdout string) (r result) {
	u.t.Helper()
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		u.t.Fatalf("%v in %q", err, stdout)
	}
	return r
}

// enrollArgs enroll jane, a developer, with the approval of the admin.
func (u *user) enrollArgs(more ...string) []string {
	return append([]string{"enroll", "--user", "jane", "--group", lab.DevelopersGroup,
		"--approve-with", u.Cluster.AdminKubeconfig(), "--yes", "-o", "json"}, more...)
}

// enroll does it unattended, which must succeed.
func (u *user) enroll(more ...string) result {
	u.t.Helper()
	return u.parse(u.ok(u.KubehsmPIN(u.t.Context(), lab.PIN, u.enrollArgs(more...)...)))
}

// configure adds lines to the configuration.
func (u *user) configure(lines string) {
	u.t.Helper()
	f, err := os.OpenFile(filepath.Join(u.Home, "config.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(lines)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		u.t.Fatal(err)
	}
}

// unlock gives the agent the PIN.
func (u *user) unlock() {
	u.t.Helper()
	u.ok(u.KubehsmPIN(u.t.Context(), lab.PIN, "unlock", enrolled))
}

// consents sets the consent policy, which the key signs.
func (u *user) consents(policy string) {
	u.t.Helper()
	u.ok(u.KubehsmPIN(u.t.Context(), lab.PIN, "consent", "set", enrolled, "--policy", policy, "--yes"))
}

// agentStatus is what `agent status -o json` prints, as far as tests look at it.
type agentStatus struct {
	Running    bool
	Version    string
	PID        int
	Signatures uint64
	Dials      uint64
	Tokens     []struct{ Unlocked bool }
}

func (u *user) agentStatus() (s agentStatus) {
	u.t.Helper()
	out := u.kubehsm("agent", "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		u.t.Fatalf("%v in %q", err, out)
	}
	return s
}

// wantFailure checks how a program failed: its exit code, one "error:" line with
// all of texts, one "hint:" line, and nothing on standard output.
func (u *user) wantFailure(res lab.Result, code int, hint string, texts ...string) {
	u.t.Helper()
	if res.Code != code {
		u.t.Errorf("exit code %d, want %d", res.Code, code)
	}
	if res.Stdout != "" {
		u.t.Errorf("standard output %q, want none", res.Stdout)
	}
	u.wantWords(res.Stderr, hint, texts...)
	if u.t.Failed() {
		u.t.Log(res)
	}
}

// wantWords checks the error and hint lines in text.
func (u *user) wantWords(text, hint string, texts ...string) {
	u.t.Helper()
	errors, hints := linesWith(text, "error: "), linesWith(text, "hint: ")
	if len(errors) != 1 || len(hints) != 1 {
		u.t.Fatalf("%d error and %d hint lines, want one of each:\n%s", len(errors), len(hints), text)
	}
	for _, want := range texts {
		if !strings.Contains(errors[0], want) {
			u.t.Errorf("the error lacks %q: %s", want, errors[0])
		}
	}
	if !strings.Contains(hints[0], hint) {
		u.t.Errorf("the hint lacks %q: %s", hint, hints[0])
	}
}

// linesWith are the lines that begin with prefix, each with the indented ones
// that belong to it.
func linesWith(text, prefix string) (found []string) {
	in := false
	for _, line := range strings.Split(strings.ReplaceAll(text, "\r", ""), "\n") {
		switch {
		case strings.HasPrefix(line, prefix):
			found, in = append(found, line), true
		case in && strings.HasPrefix(line, "  "):
			found[len(found)-1] += " " + strings.TrimSpace(line)
		default:
			in = false
		}
	}
	return found
}

//go:build linux

package scenarios

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/term"
)

// enrolled is the name that an enrollment from the lab's context gets.
const enrolled = lab.Context + "-hsm"

// pinPrompt is in the words that ask for a PIN.
const pinPrompt = "needs its PIN"

// user is somebody with a lab, in a test.
type user struct {
	*lab.Lab
	t *testing.T
	// secrets are what no terminal may show.
	secrets []string
}

// newUser makes a lab on the shared control plane.
func newUser(t *testing.T, o lab.Options) *user {
	t.Helper()
	return &user{lab.ForTest(t, o).Lab, t, []string{lab.PIN, lab.SOPIN, wrongPIN}}
}

// in is the user in a subtest.
func (u *user) in(t *testing.T) *user { return &user{u.Lab, t, u.secrets} }

// ran is the result of a program that could be run.
func (u *user) ran(res lab.Result, err error) lab.Result {
	u.t.Helper()
	must.OK(u.t, err)
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
	must.OK(u.t, err)
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

func (u *user) parse(stdout string) result {
	u.t.Helper()
	return parse[result](u.t, stdout)
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
	must.OK(u.t, err)
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

func (u *user) agentStatus() agentStatus {
	u.t.Helper()
	return parse[agentStatus](u.t, u.kubehsm("agent", "status", "-o", "json"))
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

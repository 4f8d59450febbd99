//go:build linux

package scenarios

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// commandIn is what follows "kubehsm" in the last command that a text names.
func commandIn(t *testing.T, text string) []string {
	t.Helper()
	found := regexp.MustCompile("kubehsm ([a-z][^`\n]*)").FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatalf("no command in:\n%s", text)
	}
	return strings.Fields(found[len(found)-1][1])
}

func (u *user) credentialFails(want string) lab.Result {
	u.t.Helper()
	res := u.ran(u.Run(u.t.Context(), lab.Run{Env: []string{execInfo}}, u.Binary, "credential", "--enrollment", enrolled))
	if res.Code != 1 || !strings.Contains(res.Stderr, want) {
		u.t.Fatalf("want %q: %s", want, res)
	}
	return res
}

// TestHintsAfterExpiry: the commands that are named once a certificate has ended
// get another one, however the first was come by.
func TestHintsAfterExpiry(t *testing.T) {
	t.Parallel()
	works := func(t *testing.T, u *user, user string) {
		t.Helper()
		if out := u.kubectl("--context", enrolled, "auth", "whoami", "-o",
			"jsonpath={.status.userInfo.username}"); out != user {
			t.Errorf("kubectl is %q", out)
		}
	}
	t.Run("enrolled from a context that is gone", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, lab.Options{})
		u.enroll()
		u.expire(t)
		u.kubectl("config", "rename-context", lab.Context, "renamed")
		command := commandIn(t, u.credentialFails("expired on").Stderr)
		res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, append(command, "--yes")...))
		if res.Code != 1 {
			t.Fatal(res)
		}
		command = commandIn(t, res.Stderr[strings.Index(res.Stderr, "hint: "):])
		if command[len(command)-1] != "CONTEXT" {
			t.Fatalf("the hint says %q", command)
		}
		command[len(command)-1] = "renamed"
		u.ok(u.KubehsmPIN(t.Context(), lab.PIN, append(command, "--yes", "--approve-with", u.Cluster.AdminKubeconfig())...))
		works(t, u, "jane")
	})
	t.Run("joined", func(t *testing.T) {
		t.Parallel()
		u := newJoiner(t, lab.Options{})
		desk := u.newDesk("")
		name := unique("jane")
		file, _, _ := desk.ticket("--for", name, "--group", lab.DevelopersGroup, "--name", enrolled)
		approve := []string{"--yes", "--approve-with", u.Cluster.AdminKubeconfig()}
		u.ok(u.KubehsmPIN(t.Context(), lab.PIN, append([]string{"join", "--ticket", file}, approve...)...))
		u.expire(t)
		res := u.credentialFails("expired on")
		u.wantWords(res.Stderr, "ask the help desk for a ticket")
		_, _, text := desk.ticket("--for", name, "--group", lab.DevelopersGroup)
		u.ok(u.Run(t.Context(), lab.Run{Stdin: text, PIN: lab.PIN}, u.Binary,
			append(append(commandIn(t, res.Stderr), approve...), "--pin-fd", "3")...))
		works(t, u, name)
	})
}

// TestHintsAfterAMove: whatever notices that nobody answers at the cluster's
// address names the command that follows it.
func TestHintsAfterAMove(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	old := controlplane.BalancerForTest(t, "127.0.0.1:0", u.Cluster.Server())
	b, err := os.ReadFile(u.Kubeconfig)
	must.OK(t, err)
	must.OK(t, os.WriteFile(u.Kubeconfig, []byte(strings.ReplaceAll(string(b), u.Cluster.Server(), old.URL())),
		0o600))
	u.enroll()
	u.unlock()
	old.Close()
	follow := []string{"kubeconfig", "refresh", enrolled, "--server", "URL"}
	res := u.credentialFails("cannot reach the API server")
	u.wantWords(res.Stderr, "kubehsm "+strings.Join(follow, " "))
	res = u.ran(u.Kubehsm(t.Context(), "kubeconfig", "refresh", enrolled, "--yes", "--request-timeout", "2s"))
	u.wantFailure(res, 1, "kubehsm "+strings.Join(follow, " "), "cannot reach")
	if out := u.ran(u.Kubehsm(t.Context(), "doctor")).Stdout; !strings.Contains(out,
		"kubehsm "+strings.Join(follow, " ")) {
		t.Errorf("doctor: %s", out)
	}
	follow[len(follow)-1] = u.Cluster.Server()
	u.ok(u.KubehsmPIN(t.Context(), lab.PIN, append(follow, "--yes")...))
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}
}

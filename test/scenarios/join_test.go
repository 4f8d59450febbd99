//go:build linux

package scenarios

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kubehsm/kubehsm/kubeconfig/ticket"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// The contexts that joins of these tests make.
const joined = "joined"

// joinable has the clusters that can be joined: of *controlplane.Cluster: func() error.
var joinable sync.Map

// localhost is the name under which cluster-info gives the API server.
func localhost(c *controlplane.Cluster) string {
	return strings.Replace(c.Server(), "127.0.0.1", "localhost", 1)
}

// newJoiner is a user of a cluster with a cluster-info as kubeadm makes it, and
// with the roles and policies that kubehsm carries.
func newJoiner(t *testing.T, o lab.Options) *user {
	t.Helper()
	u := newUser(t, o)
	once, _ := joinable.LoadOrStore(u.Cluster, sync.OnceValue(func() error {
		ctx := context.WithoutCancel(t.Context())
		if err := u.Cluster.PublishInfo(ctx, localhost(u.Cluster)); err != nil {
			return err
		}
		return u.ApplyRoles(ctx)
	}))
	must.OK(t, once.(func() error)())
	u.policiesWork()
	return u
}

// desk is somebody else at a computer of their own, without a token.
type desk struct {
	u    *user
	home string
	env  []string
}

// newDesk is a user of the cluster in these groups; "" is its admin.
func (u *user) newDesk(name string, groups ...string) *desk {
	u.t.Helper()
	file, err := u.Cluster.AdminKubeconfig(), error(nil)
	if name != "" {
		file, err = u.Cluster.KubeconfigFor(name, groups...)
	}
	must.OK(u.t, err)
	home := u.t.TempDir()
	must.OK(u.t, os.Chmod(home, 0o700))
	must.OK(u.t, os.WriteFile(filepath.Join(home, "config.yaml"), []byte("onlyModules: true\n"), 0o600))
	return &desk{u, home, []string{"KUBECONFIG=" + file, "KUBEHSM_HOME=" + home}}
}

func (d *desk) run(args ...string) lab.Result {
	d.u.t.Helper()
	return d.u.ran(d.u.Run(d.u.t.Context(), lab.Run{Env: d.env}, d.u.Binary, args...))
}

func (d *desk) ok(args ...string) string {
	d.u.t.Helper()
	return d.u.ok(d.run(args...), nil)
}

// kubectl runs kubectl with the desk's credential.
func (d *desk) kubectl(stdin string, args ...string) lab.Result {
	d.u.t.Helper()
	return d.u.ran(d.u.Run(d.u.t.Context(), lab.Run{Env: d.env, Stdin: stdin}, d.u.Cluster.Kubectl(), args...))
}

// parse reads what -o json printed.
func parse[T any](t testing.TB, out string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return v
}

// requests is what `csr list -o json` prints, as far as tests look at it.
type requests struct {
	Requests []struct {
		Name, State, User, Requester string
		Words                        []string
	}
}

// filed waits until there is one request for user, and returns its name and words.
func (d *desk) filed(user string) (name, words string) {
	d.u.t.Helper()
	poll.Until(d.u.t, "there is a request for "+user, func() bool {
		for _, r := range parse[requests](d.u.t, d.ok("csr", "list", "--pending", "-o", "json")).Requests {
			if r.User == user {
				name, words = r.Name, strings.Join(r.Words, " ")
				return true
			}
		}
		return false
	})
	return name, words
}

// made is what `helpdesk ticket -o json` prints, as far as tests look at it.
type made struct {
	Tickets []struct{ Ticket, ID, Name string }
}

// ticket makes a ticket, and puts it into a file.
func (d *desk) ticket(args ...string) (file, id, text string) {
	d.u.t.Helper()
	m := parse[made](d.u.t, d.ok(append([]string{"helpdesk", "ticket", "-o", "json"}, args...)...))
	t := m.Tickets[0]
	file = filepath.Join(d.u.t.TempDir(), "ticket")
	must.OK(d.u.t, os.WriteFile(file, []byte(t.Ticket+"\n"), 0o600))
	return file, t.ID, t.Ticket
}

// keptNowhere checks that no file of the user's holds the secret.
func (u *user) keptNowhere(secret string) {
	u.t.Helper()
	err := filepath.WalkDir(u.Dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(p, filepath.Join(u.Dir, "bin")) {
			return err
		}
		b, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(b), secret) {
			u.t.Errorf("%s holds the secret", p)
		}
		return err
	})
	must.OK(u.t, err)
}

// Every step of a join that was interrupted is gone on with; the token is asked
// for where it is needed, and nowhere else.
func TestJoinResumes(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	desk := u.newDesk(unique("hannah"), "kubehsm:helpdesk")
	name := unique("jane")
	file, id, text := desk.ticket("--for", name, "--group", lab.DevelopersGroup, "--name", joined)
	res := u.ran(u.KubehsmPIN(t.Context(), lab.PIN, "join", "--ticket", file, "--yes", "--timeout", "2s"))
	if res.Code != 124 || !strings.Contains(res.Stderr, "kubehsm join --name "+joined) {
		t.Fatalf("an approval that does not come: %s", res)
	}
	res = u.ran(u.Kubehsm(t.Context(), "join", "--name", joined, "--yes"))
	u.wantFailure(res, 1, "--ticket -", "is needed to go on")

	request, words := desk.filed(name)
	desk.ok("helpdesk", "approve", request, "--words", words, "--yes")
	if out := u.admin("get", "secrets", "-n", "kube-system", "-o", "name"); strings.Contains(out, id) {
		t.Errorf("the ticket's token outlived the approval: %s", out)
	}
	u.refused(text)
	res = u.ran(u.Kubehsm(t.Context(), "join", "--ticket", file, "--yes"))
	if res.Code != 1 || !strings.Contains(res.Stderr, "--certificate FILE") {
		t.Errorf("with a ticket that is ended: %s", res)
	}
	pem := filepath.Join(t.TempDir(), "cert.pem")
	must.OK(t, os.WriteFile(pem, []byte(desk.ok("csr", "wait", request)), 0o600))
	wrong := filepath.Join(t.TempDir(), "ca.pem")
	ca, err := os.ReadFile(u.Cluster.CAFile())
	must.OK(t, err)
	must.OK(t, os.WriteFile(wrong, ca, 0o600))
	if res := u.ran(u.Kubehsm(t.Context(), "join", "--name", joined, "--certificate", wrong, "--yes")); res.Code != 1 ||
		!strings.Contains(res.Stderr, "for another key") {
		t.Errorf("with somebody else's certificate: %s", res)
	}
	r := u.parse(u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "join", "--name", joined, "--certificate", pem, "--yes", "-o",
		"json")))
	if r.User != name || r.Request != request {
		t.Errorf("result %+v", r)
	}
}

// refused waits until the API server no longer takes the token of a ticket that
// is ended: it remembers a good one for some seconds.
func (u *user) refused(text string) {
	u.t.Helper()
	k, err := ticket.Parse([]byte(text))
	must.OK(u.t, err)
	poll.Until(u.t, "the ticket's token is refused", func() bool {
		res := u.ran(u.Run(u.t.Context(), lab.Run{Env: []string{"KUBECONFIG=/dev/null"}}, u.Cluster.Kubectl(), "--server",
			u.Cluster.Server(),
			"--certificate-authority", u.Cluster.CAFile(), "--token", k.Token.Reveal(), "get", "csr", "none"))
		return strings.Contains(res.Stderr, "Unauthorized")
	})
}

// A discovery file says where the cluster is; who files the request is apart.
func TestJoinByFile(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	admin := u.newDesk("")
	token := strings.TrimSpace(admin.ok("bootstrap-token", "create", "--ttl", "1h", "--usages", "authentication"))
	file := filepath.Join(t.TempDir(), "prod.conf")
	if err := os.WriteFile(file, []byte(u.admin("get", "configmap", "cluster-info", "-n", "kube-public", "-o",
		"jsonpath={.data.kubeconfig}")), 0o600); err != nil {
		t.Fatal(err)
	}
	name := unique("jane")
	args := []string{"--tls-bootstrap-token", "-", "--user", name, "--approve-with", u.Cluster.AdminKubeconfig(), "--yes",
		"-o", "json", "--pin-fd", "3"}
	r := u.parse(u.ok(u.Run(t.Context(), lab.Run{Stdin: token, PIN: lab.PIN}, u.Binary,
		append([]string{"join", "--discovery-file", file}, args...)...)))
	if r.Name != "prod-hsm" || r.User != name || r.Rights || r.Ask == "" {
		t.Errorf("result %+v", r)
	}
	res := u.ran(u.Run(t.Context(), lab.Run{Stdin: token, PIN: lab.PIN}, u.Binary,
		append([]string{"join", "--name", "other", "--discovery-file", u.Cluster.AdminKubeconfig()}, args...)...))
	if res.Code != 1 || !strings.Contains(res.Stderr, "holds a credential") {
		t.Errorf("a file with a credential in it: %s", res)
	}
}

// A cluster that says another address of itself is followed, after a look.
func TestRefresh(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	u.enroll()
	out := u.ran(u.Kubehsm(t.Context(), "kubeconfig", "refresh", enrolled, "--dry-run"))
	if !strings.Contains(out.Stderr, "- server: "+u.Cluster.Server()) ||
		!strings.Contains(out.Stderr, "+ server: "+localhost(u.Cluster)) {
		t.Errorf("what has changed: %s", out)
	}
	if out := u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "kubeconfig", "refresh", enrolled, "--yes")); !strings.Contains(out, "is updated") {
		t.Errorf("refresh: %s", out)
	}
	b, err := os.ReadFile(u.Kubeconfig)
	if err != nil || !strings.Contains(string(b), "server: "+localhost(u.Cluster)) {
		t.Errorf("the kubeconfig does not follow: %v\n%s", err, b)
	}
	if out := u.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "jane" {
		t.Errorf("kubectl is %q", out)
	}
	if out := u.kubehsm("kubeconfig", "refresh", enrolled, "--yes"); !strings.Contains(out, "Nothing has changed") {
		t.Errorf("again: %s", out)
	}
}

// TestBootstrapTokensAreRedacted: a list shows no secret unless it is asked to, and wrong arguments are refused.
// Package kubeadm has kubeadm read our tokens, and the other way round.
func TestBootstrapTokensAreRedacted(t *testing.T) {
	t.Parallel()
	u := newJoiner(t, lab.Options{})
	admin := u.newDesk("")
	token := strings.TrimSpace(admin.ok("bootstrap-token", "create", "--ttl", "1h"))
	id, secret, _ := strings.Cut(token, ".")
	if list := admin.ok("bootstrap-token", "list"); !strings.Contains(list, id+".<redacted>") || strings.Contains(list, secret) {
		t.Errorf("the list: %s", list)
	}
	if list := admin.ok("bootstrap-token", "list", "--reveal"); !strings.Contains(list, token) {
		t.Errorf("the list, revealed: %s", list)
	}
	admin.ok("bootstrap-token", "delete", token)
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a usage":  {[]string{"create", "--usages", "cooking"}, 2, "unknown usage"},
		"a group":  {[]string{"create", "--groups", "system:masters"}, 2, "group"},
		"an ID":    {[]string{"delete", "ABC"}, 2, "not a bootstrap token"},
		"gone":     {[]string{"delete", id}, 1, "no such bootstrap token"},
		"negative": {[]string{"create", "--ttl", "-1h"}, 2, "lifetime"},
	} {
		if res := admin.run(append([]string{"bootstrap-token"}, tc.args...)...); res.Code != tc.code ||
			!strings.Contains(res.Stderr, tc.says) {
			t.Errorf("%s: want code %d and %q: %s", name, tc.code, tc.says, res)
		}
	}
}

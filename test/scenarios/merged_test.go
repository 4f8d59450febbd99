//go:build linux

package scenarios

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
)

// Parts of kubeconfigs. Each of them has a context of its own; both have "twin", which leads
// elsewhere in the second.
const (
	mergedOne = `# the first file
apiVersion: v1
kind: Config
clusters:
- name: one   # with a comment
  cluster: {server: "https://one:6443", certificate-authority: pki/ca.crt}
- name: twin
  cluster:
    server: https://first:6443
contexts:
- name: one
  context: {cluster: one, user: one}
- name: twin
  context:
    cluster: twin
    user: one
users:
- name: one
  user: {token: sesame}
`
	mergedTwo = `apiVersion: v1
clusters:
- cluster:
    server: https://two:6443
  name: two
- cluster:
    server: https://second:6443
  name: twin
contexts:
- context:
    cluster: two
    user: two
  name: two
- context:
    cluster: twin
    user: two
  name: twin
current-context: two
kind: Config
preferences: {}
users:
- name: two
  user:
    client-certificate: keys/two.crt
    client-key: ../two.key
`
)

// merged is a row of the table in docs/kubectl.md. Paths are relative to a folder of the row's.
type merged struct {
	name  string
	files map[string]string // content, or after "-> " a link's target
	modes map[string]fs.FileMode
	paths string   // KUBECONFIG
	args  []string // arguments of kubectl and kubehsm
	// writes is the file that a new entry and the current context go to; "" if that is refused.
	writes string
}

func mergedRows() []merged {
	both := map[string]string{"a": mergedOne, "b": mergedTwo}
	return []merged{
		{name: "one file", files: both, paths: "b", writes: "b"},
		{name: "several, current-context in the second, an entry twice", files: both, paths: "a:b", writes: "a"},
		{name: "several, the other way round", files: both, paths: "b:a", writes: "b"},
		{name: "the first is missing", files: both, paths: "none:a:b", writes: "a"},
		{name: "the last is missing", files: both, paths: "a:b:none", writes: "a"},
		{name: "all are missing", files: both, paths: "new:none", writes: "none"},
		{name: "all are missing, in a folder that is missing", files: both, paths: "x/y/new", writes: "x/y/new"},
		{name: "empty elements", files: both, paths: ":a::b:", writes: "a"},
		{name: "a file twice", files: both, paths: "b:a:b", writes: "b"},
		{name: "an empty file first", files: map[string]string{"e": "", "b": mergedTwo}, paths: "e:b", writes: "e"},
		{name: "Windows line ends",
			files: map[string]string{"w": strings.ReplaceAll(mergedTwo, "\n", "\r\n"), "a": mergedOne},
			paths: "w:a", writes: "w"},
		{name: "a link", files: map[string]string{"l": "-> b", "b": mergedTwo}, paths: "l", writes: "b"},
		{name: "a link to another folder", files: map[string]string{"l": "-> far/away/b", "far/away/b": mergedTwo},
			paths: "l", writes: "far/away/b"},
		{name: "a link to a link", files: map[string]string{"l": "-> far/m", "far/m": "-> ../b", "b": mergedTwo},
			paths: "l", writes: "b"},
		{name: "a link that leads nowhere, and a file", files: map[string]string{"l": "-> gone", "b": mergedTwo}, paths: "l:b",
			writes: "b"},
		{name: "a link that leads nowhere", files: map[string]string{"l": "-> gone"}, paths: "l", writes: "gone"},
		{name: "--kubeconfig", files: both, paths: "a", args: []string{"--kubeconfig", "b"}, writes: "b"},
		{name: "--kubeconfig with a link", files: map[string]string{"a": mergedOne, "l": "-> b", "b": mergedTwo}, paths: "a",
			args: []string{"--kubeconfig", "l"}, writes: "b"},
		{name: "--context", files: both, paths: "a:b", args: []string{"--context", "one"}, writes: "a"},
		{name: "--cluster", files: both, paths: "a:b", args: []string{"--cluster", "two"}, writes: "a"},
		{name: "read-only", files: both, modes: map[string]fs.FileMode{"a": 0o400}, paths: "a:b"},
		{name: "a link to what is read-only", files: map[string]string{"l": "-> b", "b": mergedTwo},
			modes: map[string]fs.FileMode{"b": 0o400}, paths: "l"},
		{name: "read-only, not the first", files: both, modes: map[string]fs.FileMode{"b": 0o400}, paths: "a:b", writes: "a"},
	}
}

// TestMergedKubeconfigs: kubehsm reads and writes the files that kubectl does. All else in them stays
// as it was, links are followed, and undo gives each byte back.
func TestMergedKubeconfigs(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	for _, row := range mergedRows() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			u := u.in(t)
			ours, theirs := row.lay(t), row.lay(t)
			before := filesIn(t, ours)
			names, current := row.read(u, ours)

			_ = row.run(u, u.Cluster.Kubectl(), theirs, "config", "set-context", "probe", "--cluster=c", "--user=u")
			_ = row.run(u, u.Cluster.Kubectl(), theirs, "config", "use-context", "probe")
			res := row.run(u, u.Binary, ours, "kubeconfig", "set", enrolled, "--yes")
			if row.writes == "" {
				if res.Code != 1 || !strings.Contains(res.Stderr, "read-only") || !strings.Contains(res.Stderr, "hint: make ") {
					t.Errorf("not refused: %s", res)
				}
				if now := filesIn(t, ours); !maps.Equal(now, before) {
					t.Errorf("refused, and changed: %q", changed(before, now))
				}
				return
			}
			if res.Code != 0 {
				t.Fatal(res)
			}
			after := filesIn(t, ours)
			if got := changed(before, after); !slices.Equal(got, []string{row.writes}) {
				t.Errorf("writes %q, want %q", got, row.writes)
			}
			if got := changed(before, filesIn(t, theirs)); !slices.Equal(got, []string{row.writes}) {
				t.Errorf("kubectl writes %q, want %q", got, row.writes)
			}
			keptLines(t, before[row.writes], after[row.writes])
			namesAfter, currentAfter := row.read(u, ours)
			want := slices.Sorted(slices.Values(append(names, enrolled)))
			if !slices.Equal(namesAfter, want) || currentAfter != enrolled {
				t.Errorf("then there are %q, current %q; want %q", namesAfter, currentAfter, want)
			}
			row.diagnosed(u, ours)
			if res := row.run(u, u.Binary, ours, "kubeconfig", "undo", "--yes"); res.Code != 0 {
				t.Fatal(res)
			}
			if now := filesIn(t, ours); !maps.Equal(now, before) {
				t.Errorf("not as before: %q", changed(before, now))
			}
			if _, now := row.read(u, ours); now != current {
				t.Errorf("current is %q, was %q", now, current)
			}
		})
	}
}

// TestMergedIdentities: a user's certificate and key by relative paths in a second file, `--as`, and `as` in a
// user's entry mean the same to kubehsm and to kubectl, beside an entry of kubehsm's and through it.
func TestMergedIdentities(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	if err := u.Cluster.Apply(t.Context(), `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: merged-as}
rules: [{apiGroups: [""], resources: [users], resourceNames: [merged-other], verbs: [impersonate]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: merged-as}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: merged-as}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: `+lab.User+`}]
`); err != nil {
		t.Fatal(err)
	}
	u.enroll()
	config := u.kubectl("config", "view", "--raw", "--kubeconfig", u.Cluster.AdminKubeconfig(), "-o", "json")
	var admin struct {
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			}
		}
	}
	must.OK(t, json.Unmarshal([]byte(config), &admin))
	ca, err := os.ReadFile(u.Cluster.CAFile())
	must.OK(t, err)
	row := merged{paths: "a:far/b", files: map[string]string{"a": mergedOne, "pki/ca.crt": string(ca),
		"far/client.crt": string(admin.Users[0].User.Certificate), "key.pem": string(admin.Users[0].User.Key),
		"far/b": `apiVersion: v1
kind: Config
clusters:
- {name: near, cluster: {server: "` + u.Cluster.Server() + `", certificate-authority: ../pki/ca.crt}}
contexts:
- {name: near, context: {cluster: near, user: near}}
users:
- {name: near, user: {client-certificate: client.crt, client-key: ../key.pem}}
`}}
	dir := row.lay(t)
	whoami := func(want string, args ...string) {
		t.Helper()
		args = append([]string{"auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"}, args...)
		if res := row.run(u, u.Cluster.Kubectl(), dir, args...); res.Stdout != want {
			t.Errorf("kubectl %s: want %q: %s", strings.Join(args, " "), want, res)
		}
	}
	ours := func(args ...string) string {
		t.Helper()
		res := row.run(u, u.Binary, dir, args...)
		if res.Code != 0 {
			t.Fatal(res)
		}
		return res.Stdout
	}

	whoami("test-admin", "--context", "near")
	ours("csr", "list", "--context", "near") // signs in by the relative paths
	ours("kubeconfig", "set", enrolled, "--yes")
	whoami(lab.User)
	whoami("merged-other", "--as", "merged-other")
	for _, name := range []string{"nobody", "merged-other-2"} { // the API server decides, on who signs in by the token
		res := row.run(u, u.Cluster.Kubectl(), dir, "get", "namespaces", "--as", name)
		if res.Code == 0 || !strings.Contains(res.Stderr, "Error from server (Forbidden)") {
			t.Errorf("--as %s: %s", name, res)
		}
		last := func(text string) string { return text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:] }
		direct := u.ran(u.Kubectl(t.Context(), "--context", lab.Context, "get", "namespaces", "--as", name))
		if direct.Code != res.Code || last(direct.Stderr) != last(res.Stderr) {
			t.Errorf("--as %s with a key file: %s", name, direct)
		}
	}
	ours("csr", "list", "--context", "near", "--cluster", "near")
	whoami(lab.User, "--context", enrolled, "--cluster", enrolled)

	// kubectl writes `as` into the entry, which kubehsm leaves there.
	row.run(u, u.Cluster.Kubectl(), dir, "config", "set", "users."+enrolled+".act-as", "merged-other")
	whoami("merged-other")
	before := filesIn(t, dir)
	ours("kubeconfig", "set", enrolled, "--yes")
	if now := filesIn(t, dir); !maps.Equal(now, before) {
		t.Errorf("kubeconfig set changes %q: %s", changed(before, now), now["a"])
	}
	ours("kubeconfig", "set", enrolled, "--yes", "--mode", "external-signer")
	ours("kubeconfig", "set", enrolled, "--yes")
	whoami("merged-other")
}

// lay puts the row's files into a new folder, whose path does not matter.
func (row merged) lay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range row.files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if target, ok := strings.CutPrefix(text, "-> "); ok && err == nil {
			err = os.Symlink(target, path)
		} else if err == nil {
			mode := row.modes[name]
			if mode == 0 {
				mode = 0o600
			}
			err = os.WriteFile(path, []byte(text), mode)
		}
		must.OK(t, err)
	}
	return dir
}

// run runs a program on the files in dir.
func (row merged) run(u *user, program, dir string, args ...string) lab.Result {
	u.t.Helper()
	var paths []string
	for p := range strings.SplitSeq(row.paths, ":") {
		if p != "" {
			p = filepath.Join(dir, p)
		}
		paths = append(paths, p)
	}
	for i, a := range row.args {
		if i > 0 && row.args[i-1] == "--kubeconfig" {
			a = filepath.Join(dir, a)
		}
		args = append(args, a)
	}
	res, err := u.Run(u.t.Context(), lab.Run{Env: []string{"KUBECONFIG=" + strings.Join(paths, ":")}}, program, args...)
	must.OK(u.t, err)
	return res
}

// read returns the names of the contexts, in order, and the current one, which have to be the same for
// kubectl and kubehsm.
func (row merged) read(u *user, dir string) (names []string, current string) {
	u.t.Helper()
	view := row.run(u, u.Cluster.Kubectl(), dir, "config", "view", "--raw", "-o", "json")
	var theirs struct {
		Current  string `json:"current-context"`
		Contexts []struct {
			Name    string
			Context struct{ Cluster string }
		}
		Clusters []struct {
			Name    string
			Cluster struct{ Server string }
		}
	}
	list := row.run(u, u.Binary, dir, "kubeconfig", "list", "-o", "json")
	var ours struct {
		Contexts []struct {
			Name, Cluster, Server string
			Current               bool
		}
	}
	if err := json.Unmarshal([]byte(view.Stdout), &theirs); err != nil {
		u.t.Fatal(err, view)
	}
	if err := json.Unmarshal([]byte(list.Stdout), &ours); err != nil {
		u.t.Fatal(err, list)
	}
	servers := map[string]string{}
	for _, c := range theirs.Clusters {
		servers[c.Name] = c.Cluster.Server
	}
	var want, got []string
	for _, c := range theirs.Contexts {
		names = append(names, c.Name)
		mark := ""
		if c.Name == theirs.Current {
			mark = " *"
		}
		want = append(want, c.Name+" "+c.Context.Cluster+" "+servers[c.Context.Cluster]+mark)
	}
	for _, c := range ours.Contexts {
		mark := ""
		if c.Current {
			mark = " *"
		}
		got = append(got, c.Name+" "+c.Cluster+" "+c.Server+mark)
	}
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(got, want) {
		u.t.Errorf("kubehsm reads %q, kubectl %q", got, want)
	}
	return names, theirs.Current
}

// diagnosed wants nothing of doctor but remarks, about files that are missing.
func (row merged) diagnosed(u *user, dir string) {
	u.t.Helper()
	res := row.run(u, u.Binary, dir, "doctor", "--offline", "-o", "json")
	var doc struct {
		Checks []struct{ ID, Group, State, Found string }
	}
	if err := json.Unmarshal([]byte(res.Stdout), &doc); err != nil {
		u.t.Fatal(err, res)
	}
	seen := false
	for _, c := range doc.Checks {
		if c.Group == "kubeconfig" && (c.State == "failed" || c.State == "warning") {
			u.t.Errorf("doctor: %+v", c)
		}
		seen = seen || c.ID == "context/"+enrolled && c.State == "ok"
	}
	if !seen {
		u.t.Errorf("doctor does not see the entry: %+v", doc.Checks)
	}
}

// filesIn is what is in a folder: the files' contents and modes, and the links' targets.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			all[name], err = os.Readlink(path)
			return err
		}
		b, err := os.ReadFile(path)
		if info, ierr := d.Info(); ierr == nil {
			all[name] = info.Mode().String() + "\n" + string(b)
		}
		return err
	})
	must.OK(t, err)
	return all
}

// changed are the names of what is not the same in both.
func changed(before, after map[string]string) []string {
	var names []string
	for name := range after {
		if was, ok := before[name]; !ok || was != after[name] {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// keptLines wants the lines of before, but for the one of the current context, in after, in their
// order and with their ends; further lines end as they do.
func keptLines(t *testing.T, before, after string) {
	t.Helper()
	rest := after
	for line := range strings.Lines(before) {
		if strings.HasPrefix(line, "current-context:") {
			continue
		}
		i := strings.Index("\n"+rest, "\n"+line)
		if i < 0 {
			t.Errorf("the line %q is gone from\n%s", line, after)
			return
		}
		rest = rest[i+len(line):]
	}
	_, text, _ := strings.Cut(after, "\n") // the mode is before it
	if windows := strings.Count(text, "\r\n"); windows > 0 && windows != strings.Count(text, "\n") {
		t.Errorf("line ends are mixed:\n%q", text)
	}
}

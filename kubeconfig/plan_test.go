package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/test/must"
)

// entry is what the enrollment writes.
func entry(name string) Entry {
	return Entry{Name: name, Cluster: cluster.Cluster{Server: "https://127.0.0.1:7443/c/" + name,
		CAData: []byte("-----BEGIN CERTIFICATE-----\n")},
		Extension: map[string]any{"enrollment": name, "server": "https://real:6443"},
		Exec: &Exec{APIVersion: "client.authentication.k8s.io/v1beta1", Command: "/usr/bin/kubehsm",
			Args: []string{"credential", "--enrollment", name}, Env: []EnvVar{{"KUBEHSM_HOME", "/home/u/hsm"}},
			InteractiveMode: "IfAvailable", ProvideClusterInfo: true},
		SetCurrent: true}
}

// folder is t.TempDir in memory, where the system has that: each file that is written is waited for.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "kubeconfig")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func one(t testing.TB, text string) (Rules, string) {
	t.Helper()
	path := filepath.Join(folder(t), "config")
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return Rules{Files: []string{path}}, path
}

func text(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.OK(t, err)
	return string(data)
}

func mustPlan(t testing.TB, r Rules, e Entry) *Plan {
	t.Helper()
	p, err := r.Plan(context.Background(), e, Options{})
	must.OK(t, err)
	return p
}

func mustApply(t testing.TB, p *Plan, j Backups) {
	t.Helper()
	must.OK(t, p.Apply(context.Background(), j))
}

// mustUndo takes the last change back.
func mustUndo(t testing.TB, r Rules, j Backups) {
	t.Helper()
	p, err := r.PlanUndo(context.Background(), j)
	must.OK(t, err)
	mustApply(t, p, j)
}

// checkEntry reads the result with clientcmd alone.
func checkEntry(t testing.TB, path, name string) *api.Config {
	t.Helper()
	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text(t, path))
	}
	e := entry(name)
	cluster, user, ctx := c.Clusters[name], c.AuthInfos[name], c.Contexts[name]
	if cluster == nil || user == nil || ctx == nil {
		t.Fatalf("entry is missing in:\n%s", text(t, path))
	}
	if cluster.Server != e.Server || string(cluster.CertificateAuthorityData) != string(e.CAData) ||
		cluster.Extensions[ExecExtension] == nil {
		t.Errorf("cluster %+v", cluster)
	}
	x := user.Exec
	if x == nil || x.Command != e.Exec.Command || !reflect.DeepEqual(x.Args, e.Exec.Args) ||
		x.APIVersion != e.Exec.APIVersion ||
		len(x.Env) != 1 || x.Env[0].Value != "/home/u/hsm" || string(x.InteractiveMode) != "IfAvailable" ||
		!x.ProvideClusterInfo {
		t.Errorf("user %+v", user)
	}
	if ctx.Cluster != name || ctx.AuthInfo != name || c.CurrentContext != name {
		t.Errorf("context %+v, current %s", ctx, c.CurrentContext)
	}
	return c
}

// others is the file's meaning without our entry.
func others(t testing.TB, data []byte, name string) object {
	t.Helper()
	v, err := decode(data)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, data)
	}
	delete(v, currentContext)
	for section := range bodyKey {
		list, _ := v[section].([]any)
		var kept []any
		for _, x := range list {
			if m, ok := x.(object); !ok || m["name"] != name {
				kept = append(kept, x)
			}
		}
		delete(v, section)
		if len(kept) > 0 {
			v[section] = kept
		}
	}
	delete(v, "apiVersion")
	delete(v, "kind")
	return v
}

// without returns the lines of text but for one.
func without(text, line string) []string {
	var out []string
	for _, l := range strings.Split(text, "\n") {
		if l != line {
			out = append(out, l)
		}
	}
	return out
}

func TestShapes(t *testing.T) {
	for name, c := range shapes {
		t.Run(name, func(t *testing.T) { checkShape(t, c.text, c.keep) })
	}
}

// checkShape sets, changes and removes an entry in the text before, and takes
// that back. The lines keep must survive.
func checkShape(t *testing.T, before string, keep []string) {
	r, path := one(t, before)
	j := Backups(folder(t))
	p := mustPlan(t, r, entry("prod"))
	mustApply(t, p, j)
	checkEntry(t, path, "prod")
	got := text(t, path)
	mustUndo(t, r, j)
	if now := text(t, path); now != before {
		t.Errorf("undo gives\n%s\nwant\n%s", now, before)
	}
	mustUndo(t, r, j)
	if !reflect.DeepEqual(others(t, []byte(before), "prod"), others(t, []byte(got), "prod")) {
		t.Errorf("others have changed:\n%s", got)
	}
	if keep == nil {
		for _, line := range strings.Split(before, "\n") {
			if !strings.HasPrefix(line, currentContext) && !strings.HasPrefix(line, "contexts: []") {
				keep = append(keep, line)
			}
		}
	}
	inOrder(t, got, keep)
	if strings.Contains(before, "\r\n") && strings.Contains(strings.ReplaceAll(got, "\r\n", ""), "\n") {
		t.Errorf("line ends are mixed:\n%q", got)
	}
	if again := mustPlan(t, r, entry("prod")); !again.Empty() || again.Diff() != "" {
		t.Errorf("not idempotent:\n%s", again.Diff())
	}
	// Change it, and remove it.
	e := entry("prod")
	e.Server = "https://127.0.0.1:7444/c/prod"
	mustApply(t, mustPlan(t, r, e), j)
	changed := text(t, path)
	rm, err := r.PlanRemove(context.Background(), "prod", Options{})
	if err != nil {
		t.Fatalf("%v in:\n%s", err, changed)
	}
	mustApply(t, rm, j)
	removed := text(t, path)
	if v := others(t, []byte(removed), "prod"); !reflect.DeepEqual(others(t, []byte(before), "prod"), v) ||
		strings.Contains(removed, "7444") {
		t.Errorf("after removal:\n%s", removed)
	}
	// The last change is taken back, and brought back.
	for _, want := range []string{changed, removed, changed} {
		mustUndo(t, r, j)
		if now := text(t, path); now != want {
			t.Errorf("undo gives\n%s\nwant\n%s", now, want)
		}
	}
}

// TestFlowIsReadOnly: a kubeconfig in JSON, or in flow style, is read, and refused with what to do where it
// would be edited. Beside such a list the current context is still changed.
func TestFlowIsReadOnly(t *testing.T) {
	for name, content := range flowShapes {
		t.Run(name, func(t *testing.T) {
			r, path := one(t, content)
			want, err := clientcmd.Load([]byte(content))
			must.OK(t, err)
			if list, err := r.List(context.Background()); err != nil || len(list) != len(want.Contexts) {
				t.Errorf("%v, %v", list, err)
			}
			_, err = r.Plan(context.Background(), entry("prod"), Options{})
			if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), path) ||
				!strings.Contains(hinting.Of(err), "kubectl config view --raw --flatten --kubeconfig "+path+" > "+path+".yaml") {
				t.Errorf("%v (hint: %s)", err, hinting.Of(err))
			}
			if text(t, path) != content {
				t.Error("the file has changed")
			}
		})
	}
	const beside = "contexts: [{name: a, context: {}}, {name: b, context: {}}]\ncurrent-context: a # mine\n"
	r, path := one(t, beside)
	p, err := r.PlanUse(context.Background(), "b")
	must.OK(t, err)
	mustApply(t, p, "")
	if got, want := text(t, path), strings.Replace(beside, ": a #", ": b #", 1); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := r.PlanDrop(context.Background(), "a"); !errors.Is(err, ErrUnsupported) || hinting.Of(err) == "" {
		t.Errorf("%v", err)
	}
}

func inOrder(t *testing.T, got string, lines []string) {
	t.Helper()
	rest := "\n" + got + "\n"
	for _, line := range lines {
		i := strings.Index(rest, "\n"+line+"\n")
		if i < 0 {
			t.Errorf("the line %q is gone or has moved in:\n%s", line, got)
			return
		}
		rest = rest[i+len(line)+1:]
	}
}

func TestPlanRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"not YAML":           {"clusters: [\n", ErrParse},
		"a list":             {"- a\n", ErrParse},
		"wrong type":         {"clusters: 5\n", ErrParse},
		"doubled name":       {"users:\n- {name: a, user: {}}\n- {name: a, user: {}}\n", ErrParse},
		"doubled key":        {"clusters: []\nusers: []\nclusters: []\n", ErrUnsupported},
		"alias for a list":   {"x: &x []\nclusters: *x\n", ErrUnsupported},
		"binary":             {"\x00\x01", ErrUnsupported},
		"latin-1":            {"# \xfc\n", ErrUnsupported},
		"somebody's":         {"clusters:\n- name: prod\n  cluster: {server: https://x}\n", ErrNotOurs},
		"somebody's user":    {"users:\n- name: prod\n  user: {token: x}\n", ErrNotOurs},
		"somebody's context": {"contexts:\n- name: prod\n  context: {cluster: a, user: b}\n", ErrNotOurs},
		"kept blank lines":   {"users:\n- name: one\n  user:\n    token: |+\n      x\n\n\nkind: Config\n", ErrUnsupported},
		"ours is an anchor":  {"clusters:\n- name: prod\n  cluster: &c {server: https://x, extensions: [{name: " + ExecExtension + ", extension: {enrollment: p}}]}\n- name: b\n  cluster: *c\n", ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			r, path := one(t, c.text)
			_, err := r.Plan(context.Background(), entry("prod"), Options{})
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if text(t, path) != c.text {
				t.Error("the file has changed")
			}
		})
	}
	for name, change := range map[string]func(*Entry){
		"no name":          func(e *Entry) { e.Name = "" },
		"line in name":     func(e *Entry) { e.Name = "a\nb" },
		"http":             func(e *Entry) { e.Server = "http://x" },
		"password in URL":  func(e *Entry) { e.Server = "https://u:p@x" },
		"no user":          func(e *Entry) { e.Exec = nil },
		"two users":        func(e *Entry) { e.AuthProvider = &AuthProvider{Name: "x"} },
		"relative command": func(e *Entry) { e.Exec.Command = "./kubehsm" },
		"v1, no mode":      func(e *Entry) { e.Exec.APIVersion, e.Exec.InteractiveMode = "client.authentication.k8s.io/v1", "" },
		"v1alpha1":         func(e *Entry) { e.Exec.APIVersion = "client.authentication.k8s.io/v1alpha1" },
		"insecure with CA": func(e *Entry) { e.InsecureSkipTLSVerify = true },
		"environment":      func(e *Entry) { e.Exec.Env = []EnvVar{{"A=B", ""}} },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := one(t, "")
			e := entry("prod")
			change(&e)
			if _, err := r.Plan(context.Background(), e, Options{}); !errors.Is(err, ErrInvalid) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestReplaceAndKeep(t *testing.T) {
	r, path := one(t, "clusters:\n- name: prod\n  cluster: {server: https://x}\n# end\n")
	p, err := r.Plan(context.Background(), entry("prod"), Options{Replace: true})
	must.OK(t, err)
	mustApply(t, p, "")
	checkEntry(t, path, "prod")
	// The user's own namespace and other tools' extensions outlive an update.
	c, err := clientcmd.LoadFromFile(path)
	must.OK(t, err)
	c.Contexts["prod"].Namespace = "team"
	must.OK(t, clientcmd.WriteToFile(*c, path))
	e := entry("prod")
	e.CAData = []byte("other")
	mustApply(t, mustPlan(t, r, e), "")
	got, err := r.Get(context.Background(), "prod")
	if err != nil || got.Namespace != "team" || string(got.Cluster.CAData) != "other" {
		t.Errorf("%+v, %v", got, err)
	}
	e.Namespace = "dev"
	if p := mustPlan(t, r, e); !p.Empty() {
		t.Errorf("the user's namespace is overwritten:\n%s", p.Diff())
	}
	e.Name = "new"
	mustApply(t, mustPlan(t, r, e), "")
	if got, err = r.Get(context.Background(), "new"); err != nil || got.Namespace != "dev" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFiles checks where entries go against kubectl's own PathOptions.
func TestFiles(t *testing.T) {
	for _, exist := range []string{"", "a", "b", "ab", "bc"} {
		dir := folder(t)
		var files []string
		for _, n := range []string{"a", "b", "c"} {
			files = append(files, filepath.Join(dir, n))
			if strings.Contains(exist, n) {
				must.OK(t, os.WriteFile(files[len(files)-1], nil, 0o600))
			}
		}
		t.Setenv("KUBECONFIG", strings.Join(append([]string{""}, files...), string(os.PathListSeparator)))
		r := DefaultRules("")
		if got, want := r.DefaultFile(), clientcmd.NewDefaultPathOptions().GetDefaultFilename(); got != want {
			t.Errorf("%q exist: new entries go to %s, kubectl writes %s", exist, got, want)
		}
	}
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", "/home/u")
	if got := DefaultRules("").Paths(); !reflect.DeepEqual(got, []string{"/home/u/.kube/config"}) {
		t.Errorf("default %v", got)
	}
	if got := DefaultRules("/x").Paths(); !reflect.DeepEqual(got, []string{"/x"}) {
		t.Errorf("explicit %v", got)
	}
}

func TestSeveralFiles(t *testing.T) {
	dir := folder(t)
	a, b, none := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "none")
	e := entry("prod")
	own := Rules{Files: []string{b}}
	e.SetCurrent = false
	mustApply(t, mustPlan(t, own, e), "") // the entry lives in b
	must.OK(t, os.WriteFile(a, []byte(kubectlStyle), 0o600))
	r := Rules{Files: []string{none, a, b}}
	e.Server, e.SetCurrent = "https://127.0.0.1:1/c/prod", true
	j := Backups(filepath.Join(dir, "backups"))
	before := [2]string{text(t, a), text(t, b)}
	p := mustPlan(t, r, e)
	if fmt.Sprint(p.Files()) != fmt.Sprint([]FileChange{{Path: a}, {Path: b}}) {
		t.Errorf("files %v", p.Files())
	}
	mustApply(t, p, j)
	if got := text(t, a); got != strings.Replace(kubectlStyle, "current-context: one", "current-context: prod", 1) {
		t.Errorf("a:\n%s", got)
	}
	list, err := r.List(context.Background())
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if c := list[1]; c.File != b || !c.Current || c.Cluster.Server != e.Server || c.User.Kind != UserOurs ||
		c.User.Enrollment != "prod" || !c.Cluster.Ours() {
		t.Errorf("%+v", c)
	}
	if c := list[0]; c.File != a || c.User.Kind != UserToken || c.Cluster.Ours() {
		t.Errorf("%+v", c)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Error("a missing file was made")
	}
	mustUndo(t, r, j)
	if text(t, a) != before[0] || text(t, b) != before[1] {
		t.Error("undo did not restore both files")
	}
}

func TestRESTConfig(t *testing.T) {
	r, _ := one(t, kubectlStyle)
	c, err := r.RESTConfig(context.Background(), "")
	if err != nil || c.Host != "https://one:6443" || c.BearerToken != "sesame" {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := r.RESTConfig(context.Background(), "two"); !errors.Is(err, ErrNoContext) {
		t.Errorf("error %v", err)
	}
	empty, _ := one(t, "")
	if _, err := empty.RESTConfig(context.Background(), ""); !errors.Is(err, ErrNoContext) {
		t.Errorf("error %v", err)
	}
	if _, err := (Rules{Explicit: "/does/not/exist"}).List(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// TestDropAnchor: what others refer to by an alias is not taken away, and said
// to be the reason.
func TestDropAnchor(t *testing.T) {
	const shared = "clusters:\n- name: a\n  cluster: &c {server: https://x}\n- name: b\n  cluster: *c\nusers:\n- {name: u, user: {token: t}}\n" +
		"contexts:\n- {name: a, context: {cluster: a, user: u}}\n- {name: b, context: {cluster: b, user: u}}\n"
	r, path := one(t, shared)
	_, err := r.PlanDrop(context.Background(), "a")
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), `refer to the entry "a" by a YAML alias`) ||
		strings.Contains(err.Error(), "internal") {
		t.Errorf("error %v", err)
	}
	if text(t, path) != shared {
		t.Error("the file has changed")
	}
	if _, err := r.PlanDrop(context.Background(), "b"); err != nil { // b only refers to others
		t.Error(err)
	}
}

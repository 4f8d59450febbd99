//go:build linux

package clients

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/need"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

var (
	all   = flag.Bool("all", false, "try all clients of the matrix: `make clients`")
	write = flag.Bool("write", false, "write docs/clients.md")
)

const (
	// other is the context of the second cluster.
	other = "second-hsm"
	// life is what a credential's five minutes are cut down to.
	life = 3 * time.Second
	// atOnce is how many requests are sent at once.
	atOnce = 200
)

// columns are what each client is to do, in the order of the table.
var columns = []struct{ name, title string }{
	{"list", "list"},
	{"create", "create"},
	{"watch", "watch, two expiries"},
	{"exec", "exec"},
	{"forward", "port-forward"},
	{"burst", "200 at once"},
	{"both", "two clusters"},
	{"lock", "lock, unlock"},
	{"killed", "agent killed"},
}

// row is one client of the matrix.
type row struct {
	name  string
	lacks string // the verbs that it does not have
	quick bool   // `make test` tries the client each time
	start func(*lab.Person) (program, error)

	program program
	mu      sync.Mutex
	cells   map[string]string
	words   map[string]string // last words of a client that failed
}

func (r *row) has(verb string) bool { return !strings.Contains(" "+r.lacks+" ", " "+verb+" ") }

func (r *row) did(verb, cell string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cells[verb] == "" || cell != "yes" { // a failure stays
		r.cells[verb] = cell
	}
}

// cached is a program that debian.sh or make put into the checkout's .cache.
func cached(t *testing.T, path ...string) string {
	root, err := controlplane.Checkout()
	must.OK(t, err)
	return need.File(t, filepath.Join(append([]string{root, ".cache"}, path...)...))
}

// built is a client that make has built, or debian.sh has fetched.
func built(t *testing.T, name string) string { return cached(t, "clients", name) }

func testdata(t *testing.T, name string) string {
	path, err := filepath.Abs(filepath.Join("testdata", "matrix", name))
	must.OK(t, err)
	return need.File(t, path)
}

// rows are the clients, as docs/clients.md lists them.
func rows(t *testing.T) []*row {
	kubectlOf := func(name string, quick bool, path func() string) *row {
		return &row{name: name, quick: quick, lacks: "both",
			start: func(p *lab.Person) (program, error) { return newKubectl(p, path()), nil }}
	}
	talks := func(name string, quick bool, lacks string, args func(*lab.Person) []string) *row {
		return &row{name: name, quick: quick, lacks: lacks,
			start: func(p *lab.Person) (program, error) { return newTalker(p, args(p)...) }}
	}
	node := func(pkg string) func(*lab.Person) []string {
		return func(*lab.Person) []string {
			arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
			return []string{cached(t, "javascript", "node_modules", "node-linux-"+arch, "bin", "node"),
				cached(t, "javascript", "matrix.mjs"), pkg}
		}
	}
	list := []*row{
		kubectlOf("kubectl 1.20", true, func() string { return cached(t, "debian", "usr", "bin", "kubectl") }),
		kubectlOf("kubectl 1.27", false, func() string { return built(t, "kubectl-1.27") }),
		kubectlOf("kubectl 1.31", false, func() string { return built(t, "kubectl-1.31") }),
		kubectlOf("kubectl 1.34", false, func() string { return built(t, "kubectl-1.34") }),
		kubectlOf("kubectl 1.37", true, func() string { return controlplane.ForTest(t).Kubectl() }),
		talks("client-go 0.20", false, "", func(*lab.Person) []string { return []string{built(t, "clientgo-0.20")} }),
		talks("client-go 0.37", false, "", func(*lab.Person) []string { return []string{built(t, "clientgo-0.37")} }),
		{name: "helm 3", lacks: "watch exec forward both", start: func(p *lab.Person) (program, error) {
			return newHelm(p, built(t, "helm"))
		}},
		talks("client-node 1", false, "", node("client-node-1")),
		talks("client-node 2", false, "", node("client-node-2")),
		talks("python3-kubernetes", true, "", func(*lab.Person) []string {
			return []string{"/usr/bin/python3", testdata(t, "client.py")}
		}),
		talks("ruby-kubeclient", true, "exec forward", func(*lab.Person) []string {
			return []string{"/usr/bin/ruby", testdata(t, "client.rb")}
		}),
		talks("curl", true, "exec forward both", func(p *lab.Person) []string { return curlArgs(t, p) }),
	}
	var chosen []*row
	for _, r := range list {
		if r.quick || *all {
			r.cells, r.words = map[string]string{}, map[string]string{}
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// curlArgs are what the script of curl is told: where the bridge is, and the plugin.
func curlArgs(t *testing.T, p *lab.Person) []string {
	config, err := clientcmd.LoadFromFile(p.Kubeconfig)
	if err != nil {
		t.Error(err)
		return nil
	}
	c := config.Contexts[lab.Enrolled]
	user := config.AuthInfos[c.AuthInfo].Exec
	args := []string{"/bin/bash", testdata(t, "client.sh"), config.Clusters[c.Cluster].Server, "/usr/bin/env"}
	for _, v := range user.Env {
		args = append(args, v.Name+"="+v.Value)
	}
	return append(append(args, user.Command), user.Args...)
}

// caFile is a file of the bridge's authority, for who reads no kubeconfig.
func caFile(p *lab.Person) string { return filepath.Join(p.Dir, "bridge-ca.crt") }

// matrix is the person whose clients are tried, on two clusters.
type matrix struct {
	*lab.Person
	plugin lab.Plugin
	rows   []*row
	echo   string // port that answers each line with itself
}

func newMatrix(t *testing.T) *matrix {
	m := &matrix{Person: lab.ForTest(t, lab.Options{}), rows: rows(t)}
	second := controlplane.StartForTest(t, controlplane.Options{})
	m.Must(lab.Rights(t.Context(), second))
	extra := filepath.Join(m.Dir, "second")
	m.Must(second.WriteKubeconfig(extra, "second", "jane@second", lab.FilersGroup))
	rules := clientcmd.ClientConfigLoadingRules{Precedence: []string{m.Kubeconfig, extra}}
	merged, err := rules.Load()
	m.Must(err)
	m.Must(clientcmd.WriteToFile(*merged, m.Kubeconfig))
	_, err = lab.Succeeded(m.KubehsmPIN(t.Context(), lab.PIN, "enroll", "--context", "second", "--user", lab.User,
		"--group", lab.DevelopersGroup, "--approve-with", second.AdminKubeconfig(), "--yes"))
	m.Must(err)
	_, err = lab.Succeeded(m.KubehsmPIN(t.Context(), lab.PIN, "enroll", "--context", lab.Context, "--user", lab.User,
		"--group", lab.DevelopersGroup, "--approve-with", m.Cluster.AdminKubeconfig(), "--yes"))
	m.Must(err)
	m.Must(m.Cluster.RunPod(t.Context(), "default", "p"))
	m.plugin, err = m.InterposePlugin(0)
	m.Must(err)
	config, err := clientcmd.LoadFromFile(m.Kubeconfig)
	m.Must(err)
	m.Must(os.WriteFile(caFile(m.Person),
		config.Clusters[config.Contexts[lab.Enrolled].Cluster].CertificateAuthorityData, 0o600))
	m.echo = echoes(t)
	return m
}

// echoes listens for who says a line, and says it again.
func echoes(t *testing.T) (port string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 100)
				if n, err := c.Read(b); err == nil {
					_, _ = c.Write(b[:n]) // a client that has gone needs no answer
				}
			}()
		}
	}()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// each does something with all clients at once.
func (m *matrix) each(do func(*row)) {
	var wait sync.WaitGroup
	for _, r := range m.rows {
		wait.Go(func() { do(r) })
	}
	wait.Wait()
}

// start starts all clients, one after the other, as a missing one ends the test.
func (m *matrix) start() {
	for _, r := range m.rows {
		var err error
		r.program, err = r.start(m.Person)
		m.Must(err)
	}
}

// try has one client do one thing, and wants in what it says.
func (m *matrix) try(r *row, column, verb, arg, want string) {
	if !r.has(verb) {
		r.did(column, "–")
		return
	}
	begin := time.Now()
	got, err := r.program.do(verb, arg)
	switch {
	case err != nil:
		m.T.Errorf("%s: %s: %v", r.name, verb, err)
		r.did(column, "no")
	case !strings.Contains(got, want):
		m.T.Errorf("%s: %s: %q is not in %q", r.name, verb, want, got)
		r.did(column, "no")
	default:
		r.did(column, "yes")
	}
	m.T.Logf("%s: %s took %v", r.name, verb, time.Since(begin).Round(time.Millisecond))
}

// shown wants an object that is made now in the watch of each client.
func (m *matrix) shown(name, column string) {
	m.Admin("create", "configmap", name)
	m.each(func(r *row) {
		switch {
		case !r.has("watch"):
		case poll.Within(poll.Patience, func() bool { return r.program.saw(name) }):
			r.did(column, "yes")
		default:
			m.T.Errorf("%s: its watch does not show %s", r.name, name)
			r.did(column, "no")
		}
	})
}

// TestMatrix tries what other people's clients do all day, and holds docs/clients.md to
// what it sees. `make clients` tries all of them and writes the page.
func TestMatrix(t *testing.T) {
	m := newMatrix(t)
	m.start()
	defer m.each(func(r *row) { r.program.end() })
	m.each(func(r *row) {
		slug := "by-" + strings.NewReplacer(" ", "-", ".", "-").Replace(r.name)
		m.try(r, "list", "list", "", "")
		m.try(r, "create", "create", slug, slug)
		m.try(r, "exec", "exec", "inside", "inside")
		m.try(r, "forward", "forward", m.echo, "through")
	})
	for _, r := range m.rows { // rows in turn: each tries a client's own burst
		m.try(r, "burst", "burst", strconv.Itoa(atOnce), "")
		m.try(r, "both", "both", strconv.Itoa(atOnce), "")
	}
	// Some clients keep a credential that is good for longer than a minute, and run the
	// plugin for each request if it is not. So it was, and from now on is not.
	m.each(func(r *row) { r.program.end() })
	m.Must(m.plugin.Expire(life))
	m.start()
	m.each(func(r *row) { m.try(r, "watch", "watch", "", "") })
	m.shown("before", "watch")
	begin := time.Now()
	m.each(func(r *row) {
		for time.Since(begin) < 2*life+time.Second {
			m.try(r, "watch", "list", "", "")
		}
	})
	m.shown("after-expiries", "watch")
	m.locks()
	m.killed()
	m.compare()
}

// locks locks and unlocks the token under the clients.
func (m *matrix) locks() {
	m.Do("agent", "lock")
	m.each(func(r *row) {
		if _, err := r.program.do("list", ""); err == nil {
			m.T.Errorf("%s: it lists while the token is locked", r.name)
		} else {
			m.T.Logf("%s: while locked: %v", r.name, err)
		}
	})
	m.Must(m.Unlock(m.T.Context()))
	m.each(func(r *row) { r.did("lock", m.heals(r, "lock")) })
	m.each(func(r *row) {
		if r.has("watch") && r.cells["lock"] == "yes" {
			m.try(r, "lock", "watch", "", "")
		}
	})
}

// heals tells whether a client comes to work again by itself, at the latest when its
// credential has expired; if not, its last words are kept.
func (m *matrix) heals(r *row, column string) string {
	var err error
	if poll.Within(3*life, func() bool {
		_, err = r.program.do("list", "")
		return err == nil
	}) {
		return "yes"
	}
	r.words[column] = err.Error()
	m.T.Logf("%s: after %s: %v", r.name, column, err)
	return "says why"
}

// killed kills the agent, which the next command starts again. Who runs the plugin
// only once cannot know; it must be told what to do, and work when it has been done.
func (m *matrix) killed() {
	st, err := m.Status(m.T.Context())
	m.Must(err)
	m.Must(syscall.Kill(st.PID, syscall.SIGKILL))
	m.Must(m.Unlock(m.T.Context()))
	m.each(func(r *row) {
		cell := m.heals(r, "killed")
		r.did("killed", cell)
		if cell == "yes" {
			return
		}
		if !strings.Contains(r.words["killed"], "restart") {
			m.T.Errorf("%s: it does not say what to do: %s", r.name, r.words["killed"])
		}
		r.program.end()
		if r.program, err = r.start(m.Person); err != nil {
			m.T.Errorf("%s: started anew: %v", r.name, err)
			return
		}
		if _, err := r.program.do("list", ""); err != nil {
			m.T.Errorf("%s: started anew: %v", r.name, err)
		}
	})
}

// line is a row of the table.
func (r *row) line() string {
	cells := []string{r.name}
	for _, c := range columns {
		cells = append(cells, r.cells[c.name])
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

const page = "../../docs/clients.md"

// compare holds the page to what was seen, or writes its table.
func (m *matrix) compare() {
	b, err := os.ReadFile(page)
	m.Must(err)
	if m.T.Failed() {
		return
	}
	for _, r := range m.rows {
		if !*write && !strings.Contains(string(b), r.line()+"\n") {
			m.T.Errorf("docs/clients.md does not say so (`make clients` writes it):\n%s", r.line())
		}
	}
	if !*write {
		return
	}
	var table strings.Builder
	rule := "|---"
	table.WriteString("| client")
	for _, c := range columns {
		table.WriteString(" | " + c.title)
		rule += "|---"
	}
	fmt.Fprintf(&table, " |\n%s|\n", rule)
	for _, r := range m.rows {
		table.WriteString(r.line() + "\n")
	}
	const begins, ends = "<!-- written by make clients -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(b), begins)
	_, after, also := strings.Cut(rest, ends)
	if !found || !also {
		m.T.Fatal("docs/clients.md has no place for the table")
	}
	m.Must(os.WriteFile(page, []byte(before+begins+table.String()+ends+after), 0o644))
}

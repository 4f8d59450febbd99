//go:build linux

package transparency

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

var everyVerb = flag.Bool("verbs", false, "try every verb of kubectl at each fault: `make clients`")

const (
	// lasts is how long a fault lasts that ends by itself.
	lasts = time.Second
	// slower is by how much longer a command may take through the bridge, on a machine that does much
	// else: less than the ten seconds after which a ping is lost.
	slower = 5 * time.Second
)

// faults are what happens to an API server and the way to it while a command runs. begin
// returns what ends it.
var faults = []struct {
	name  string
	large bool // only large answers notice it
	begin func(f *faulty) (end func())
}{
	{"resets", false, func(f *faulty) func() { f.once(0, (*passed).reset); return func() {} }},
	{"half-closes", false, func(f *faulty) func() { f.once(0, (*passed).halfClose); return func() {} }},
	{"is cut in its answer", true, func(f *faulty) func() { f.once(200_000, (*passed).reset); return func() {} }},
	{"stalls", false, func(f *faulty) func() {
		var once sync.Once
		goOn := f.stall()
		timer := time.AfterFunc(lasts, func() { once.Do(goOn) })
		return func() { timer.Stop(); once.Do(goOn) }
	}},
	{"is killed", false, func(f *faulty) func() { f.refuse(); return f.listen }},
	{"is replaced", false, func(f *faulty) func() { f.replace(); return func() {} }},
	{"is replaced in its answer", true, func(f *faulty) func() {
		f.once(200_000, func(*passed) { f.replace() })
		return func() {}
	}},
}

// verbs are kubectl's, and whether each `make test` tries them.
var verbs = []struct {
	command string
	stdin   string
	quick   bool
	large   bool // answer longer than a fault lets pass
}{
	{"get configmaps -o name", "", true, false},
	{"get configmaps -o json --disable-compression", "", true, true},
	{"create configmap NAME --from-literal=a=b", "", true, false},
	{"exec p -- echo inside", "", true, false},
	{"logs p", "", false, false},
	{"describe pod p", "", false, false},
	{"apply -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}, data: {a: b}}", false, false},
	{"patch configmap read -p {\"data\":{\"p\":\"NAME\"}}", "", false, false},
	{"label configmap read --overwrite x=NAME", "", false, false},
	{"delete configmap read --dry-run=server", "", false, false},
	{"wait --for=condition=Ready pod/p --timeout=20s", "", false, false},
	{"auth whoami -o name", "", false, false},
	{"get --raw /version", "", false, false},
	{"api-versions", "", false, false},
	{"version -o json", "", false, false},
}

// disabled is what client-go says, with the time, where it is told to speak HTTP/1.1.
var disabled = regexp.MustCompile(`(?m)^I\d{4} .*HTTP2 has been explicitly disabled\n`)

// named are the objects that commands make.
var named = regexp.MustCompile(`named-\d+-\d+`)

// reason is why what kubectl says through the bridge may differ from what it says
// directly.
type reason struct {
	why            string
	command        string // the one command that it is for; "" is all
	direct, bridge *regexp.Regexp
	// better is a command that fails directly and not through the bridge.
	better bool
	rare   bool // some runs do not show it
	seen   bool
}

// reasons are all there are. Each must be seen.
var reasons = []*reason{
	{why: "the bridge, or the plugin, has an answer where the API server has none, and says in it what broke",
		direct: regexp.MustCompile(`connection reset by peer|EOF|connection refused|was refused|client connection lost`),
		bridge: regexp.MustCompile(`cannot reach the API server [^ ]+: .*(reset|EOF|refused|lost)`)},
	{why: "half an answer ends with the request's stream, not with the connection, which carries other requests",
		direct: regexp.MustCompile(`connection reset by peer|unexpected EOF|client connection lost`),
		bridge: regexp.MustCompile(`stream error|unexpected EOF|INTERNAL_ERROR`)},
	{why: "client-go repeats a stream that is answered with Retry-After, but not one whose connection breaks",
		command: "get --raw /version", better: true, rare: true,
		direct: regexp.MustCompile(`connection reset by peer|EOF`), bridge: regexp.MustCompile(`^$`)},
}

// TestFaults: where the API server or the way to it fails, kubectl does and says through
// the bridge what it does and says directly, and takes no longer.
func TestFaults(t *testing.T) {
	t.Parallel()
	c := controlplane.StartForTest(t, controlplane.Options{})
	n := &networks{Cluster: c, t: t}
	n.must(c.Apply(t.Context(), groupRights))
	n.must(c.RunPod(t.Context(), "default", "p"))
	n.bulk()
	second := n.add(controlplane.AddedAPIServer{Flags: drainFlags})
	direct, bridge := newFaulty(t, c.Server(), second), newFaulty(t, c.Server(), second)
	s := n.unenrolled(t, bridge.url(), "")
	s.enroll()
	s.prepare("faults", rewrite{c.Server(), direct.url()})
	for _, w := range s.ways() {
		s.kubectl(w, "", "api-resources") // fills the discovery cache
	}
	number := 0
	for _, fault := range faults {
		for _, protocol := range []string{"HTTP/2", "HTTP/1.1"} {
			t.Run(fault.name+", "+protocol, func(t *testing.T) {
				for _, v := range verbs {
					if !v.quick && !*everyVerb || fault.large && !v.large {
						continue
					}
					number++
					s := s.in(t)
					if protocol == "HTTP/1.1" {
						s.direct.env = append(s.direct.env, "DISABLE_HTTP2=1")
						s.bridge.env = append(s.bridge.env, "DISABLE_HTTP2=1")
					}
					// The bridge is connected, and after two reads in turn it makes no further connection for another.
					s.kubectl(s.bridge, "", "get", "configmap", "read", "bulk-0", "-o", "name")
					bridge.quiet()
					s.faulted(fault.begin, direct, bridge, number, v.command, v.stdin)
				}
			})
		}
	}
	t.Run("goes away", func(t *testing.T) { s.in(t).goesAway(second, direct, bridge) })
	t.Run("drains", func(t *testing.T) { s.in(t).drains(second, direct, bridge) })
	for _, r := range reasons {
		if !r.seen && !r.rare {
			t.Errorf("no difference has this reason: %s", r.why)
		}
	}
}

// bulk makes a list that is larger than what a fault lets pass.
func (n *networks) bulk() {
	_, err := n.Admin(n.t.Context(), "", "create", "configmap", "read", "--from-literal=a=b")
	n.must(err)
	for i := range 8 {
		n.must(n.Apply(n.t.Context(), fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: bulk-%d}, "+
			"data: {a: %s}}", i, strings.Repeat("kubehsm ", 10_000))))
	}
}

// explains tells whether a difference has this reason.
func (r *reason) explains(command string, direct, bridge lab.Result) bool {
	switch {
	case r.command != "" && r.command != command:
		return false
	case r.better && (direct.Code == 0 || bridge.Code != 0):
		return false
	case !r.better && (direct.Code != bridge.Code || direct.Stdout != bridge.Stdout):
		return false
	}
	return r.direct.MatchString(direct.Stderr) && r.bridge.MatchString(bridge.Stderr)
}

// faulted runs a command both ways at once while the fault happens to each.
func (s *stage) faulted(begin func(*faulty) func(), direct, bridge *faulty, number int, command, stdin string) {
	s.T.Helper()
	var did [2]lab.Result
	var took [2]time.Duration
	var wait sync.WaitGroup
	for i, f := range []*faulty{direct, bridge} {
		wait.Go(func() {
			name := strings.NewReplacer("NAME", fmt.Sprintf("named-%d-%d", number, i))
			var args []string
			for _, a := range strings.Fields(command) {
				args = append(args, name.Replace(a))
			}
			end := begin(f)
			defer end()
			at := time.Now()
			did[i] = s.kubectl(s.ways()[i], name.Replace(stdin), args...)
			took[i] = time.Since(at)
			f.once(0, nil)
			did[i].Stdout = named.ReplaceAllString(did[i].Stdout, "NAME")
			did[i].Stderr = named.ReplaceAllString(disabled.ReplaceAllString(did[i].Stderr, ""), "NAME")
		})
	}
	wait.Wait()
	s.T.Logf("%s: exit code %d after %v, through the bridge %d after %v", command, did[0].Code,
		took[0].Round(time.Millisecond), did[1].Code, took[1].Round(time.Millisecond))
	var why *reason
	if did[0] != did[1] {
		i := slices.IndexFunc(reasons, func(r *reason) bool { return r.explains(command, did[0], did[1]) })
		if i < 0 {
			s.T.Errorf("%s\n--- directly: %.600s\n--- through the bridge: %.600s", command, did[0], did[1])
			return
		}
		why = reasons[i]
		why.seen = true
	}
	if took[1] > took[0]+slower && (why == nil || !why.better) { // a failed command ends sooner
		s.T.Errorf("%s: it took %v through the bridge, %v directly", command, took[1], took[0])
	}
}

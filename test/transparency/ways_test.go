//go:build linux

package transparency

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// group may do everything in the cluster.
const group = "transparency"

const groupRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: transparency}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: transparency}]
`

// way is one of the two ways to the API server.
type way struct {
	name string
	// namespace is one that only this way changes. Its name is as long as the
	// other's, so that columns are as wide.
	namespace  string
	kubeconfig string
	env        []string
	server     string // server URL for kubectl
	credential string // the certificate's id in the audit log
}

// stage is where both ways are compared.
type stage struct {
	*lab.Person
	direct, bridge way
	audit          *audit
	env            []string // environment of kubectl in both ways
}

// in is the stage in a subtest.
func (s *stage) in(t *testing.T) *stage {
	c := *s
	c.Person = s.Person.In(t)
	return &c
}

func newStage(t *testing.T) *stage {
	dir := t.TempDir()
	a := &audit{policy: filepath.Join(dir, "policy.yaml"), log: filepath.Join(dir, "audit.log")}
	must.OK(t, a.writePolicy())
	c := controlplane.StartForTest(t, controlplane.Options{APIServerFlags: append(a.flags(), patientQueues)})
	s := &stage{Person: lab.ForTest(t, lab.Options{Cluster: c}), audit: a}
	s.Must(c.Apply(t.Context(), groupRights))
	s.Must(s.Enroll(t.Context(), group))
	s.prepare("way")
	for _, w := range s.ways() {
		s.kubectl(w, "", "api-resources") // fills the discovery cache
	}
	return s
}

// prepare makes the ways of who is enrolled. Their namespaces begin with name.
// rewrites are made in the direct way's kubeconfig.
func (s *stage) prepare(name string, rewrites ...rewrite) {
	s.T.Helper()
	s.direct = way{name: "direct", namespace: name + "-direct", kubeconfig: filepath.Join(s.Dir, "direct.kubeconfig")}
	s.bridge = way{name: "bridge", namespace: name + "-bridge", kubeconfig: s.Kubeconfig}
	s.Must(s.Cluster.WriteKubeconfig(s.direct.kubeconfig, "direct", lab.User, group))
	s.rewrite(s.direct.kubeconfig, rewrites...)
	for _, w := range []*way{&s.direct, &s.bridge} {
		w.env = append([]string{"KUBECONFIG=" + w.kubeconfig}, s.env...)
		s.Admin("create", "namespace", w.namespace)
		w.server = s.kubectl(*w, "", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}").Stdout
		w.credential = s.kubectl(*w, "", "auth", "whoami", "-o",
			`jsonpath={.status.userInfo.extra.authentication\.kubernetes\.io/credential-id[0]}`).Stdout
	}
	if s.direct.credential == s.bridge.credential || s.direct.server == s.bridge.server {
		s.T.Fatalf("the two ways are one: %+v", s.ways())
	}
}

// rewrite is a piece of a kubeconfig, and what takes its place.
type rewrite struct{ from, to string }

func (s *stage) rewrite(kubeconfig string, all ...rewrite) {
	s.T.Helper()
	b, err := os.ReadFile(kubeconfig)
	s.Must(err)
	text := string(b)
	for _, r := range all {
		if !strings.Contains(text, r.from) {
			s.T.Fatalf("%q is not in %s", r.from, text)
		}
		text = strings.ReplaceAll(text, r.from, r.to)
	}
	s.Must(os.WriteFile(kubeconfig, []byte(text), 0o600))
}

func (s *stage) ways() []way { return []way{s.direct, s.bridge} }

// kubectl runs kubectl one way. What it said is without what must differ.
func (s *stage) kubectl(w way, stdin string, args ...string) lab.Result {
	s.T.Helper()
	res, err := s.Run(s.T.Context(), lab.Run{Stdin: stdin, Env: w.env}, s.Cluster.Kubectl(), args...)
	s.Must(err)
	res.Stdout, res.Stderr, res.PID = w.common(res.Stdout), w.common(res.Stderr), 0
	return res
}

var (
	digest  = regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`)
	objects = regexp.MustCompile(`((?:resourceVersion|uid|creationTimestamp|time|restartedAt|Start Time)"?:\s*)("[^"]*"|[^,}\n]*)`)
	ages    = regexp.MustCompile(`\b(\d+m)?\d+s\b *|(?m) +$`)
	// When its time is up, kubectl wait may begin one more watch before it stops, mostly over HTTP/1.1.
	late  = regexp.MustCompile(`(?m)^E\d{4} .*"Failed to watch" err="context deadline exceeded".*\n`)
	files = regexp.MustCompile(`(LIVE|MERGED)-\d+|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+`)
)

// common is text without what differs from one way to the other by its nature:
// the address, the namespace, and what the API server makes up for an object.
func (w way) common(text string) string {
	if w.server != "" {
		text = strings.ReplaceAll(text, w.server, "SERVER")
	}
	text = strings.NewReplacer(w.namespace, "NAMESPACE", w.kubeconfig, "KUBECONFIG").Replace(text)
	if w.credential != "" {
		text = digest.ReplaceAllString(text, "CREDENTIAL")
	}
	text = late.ReplaceAllString(text, "")
	text = files.ReplaceAllString(objects.ReplaceAllString(text, "${1}…"), "$1…")
	return ages.ReplaceAllString(text, "…")
}

// same runs kubectl both ways and returns what it did, which must be the same:
// output, exit code, requests. NAMESPACE in args and stdin is the way's own.
func (s *stage) same(stdin string, args ...string) lab.Result {
	s.T.Helper()
	from := s.audit.now()
	did := s.alike(stdin, args...)
	s.sameRequests(from)
	return did
}

// alike is same without a look at the requests.
func (s *stage) alike(stdin string, args ...string) lab.Result {
	s.T.Helper()
	var did [2]lab.Result
	for i, w := range s.ways() {
		own := make([]string, len(args))
		for j, a := range args {
			own[j] = strings.ReplaceAll(a, "NAMESPACE", w.namespace)
		}
		did[i] = s.kubectl(w, strings.ReplaceAll(stdin, "NAMESPACE", w.namespace), own...)
	}
	if did[0] != did[1] {
		s.T.Errorf("%.200s\n--- directly: %.3000s\n--- through the bridge: %.3000s", strings.Join(args, " "), did[0], did[1])
	}
	return did[1]
}

// sameRequests compares what the API server saw of both ways since from.
func (s *stage) sameRequests(from mark) {
	s.T.Helper()
	var direct, bridge []string
	if !poll.Within(10*time.Second, func() bool { // an answer may be read before it is logged
		direct, bridge = s.audit.requests(s.T, s.direct, from), s.audit.requests(s.T, s.bridge, from)
		return fmt.Sprint(direct) == fmt.Sprint(bridge)
	}) {
		s.T.Errorf("the API server saw different requests\n--- directly:\n%s\n--- through the bridge:\n%s",
			strings.Join(direct, "\n"), strings.Join(bridge, "\n"))
	}
}

// wants fails unless the command, known to be the same both ways, did this.
func (s *stage) wants(res lab.Result, code int, texts ...string) {
	s.T.Helper()
	for _, text := range texts {
		if !strings.Contains(res.Stdout+res.Stderr, text) {
			s.T.Errorf("%q is not in %.2000s", text, res)
		}
	}
	if res.Code != code {
		s.T.Errorf("want exit code %d: %.2000s", code, res)
	}
}

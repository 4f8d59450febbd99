//go:build linux

package transparency

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubectl runs one command after the other: each is compared by what the API
// server logs meanwhile.
func TestKubectl(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Must(s.Cluster.RunPod(t.Context(), "default", "p"))
	s.Admin("create", "configmap", "read", "--from-literal=a=b")
	s.Admin("label", "configmap", "read", "shown=yes")
	t.Run("read", func(t *testing.T) { s.in(t).reads() })
	t.Run("change", func(t *testing.T) { s.in(t).changes() })
	t.Run("large", func(t *testing.T) { s.in(t).large() })
	t.Run("aggregated", func(t *testing.T) { s.in(t).aggregated() })
	t.Run("streams", func(t *testing.T) { s.in(t).streams() })
	t.Run("terminal", func(t *testing.T) { s.in(t).terminals() })
	t.Run("proxy", func(t *testing.T) { s.in(t).proxies() })
	t.Run("fairness", func(t *testing.T) { s.in(t).fairness() })
}

// reads are commands that change nothing.
func (s *stage) reads() {
	for _, c := range []struct {
		command string
		code    int
		text    string
	}{
		{"get pods -o wide", 0, "stub"},
		{"get configmaps -o yaml", 0, "a: b"},
		{"get configmap read -o json", 0, `"a": "b"`},
		{"get configmaps -A -l shown=yes -o name", 0, "configmap/read"},
		{"get pods --field-selector=spec.nodeName=stub -o name", 0, "pod/p"},
		{"get all -A --show-labels", 0, "pod/p"},
		{"get secrets", 0, "No resources found"},
		{"get configmap none", 1, "NotFound"},
		{"get nonsense", 1, "the server doesn't have a resource type"},
		{"get events -A --chunk-size=1", 0, ""},
		{"get configmaps -A --chunk-size=1 -o name", 0, "configmap/read"},
		{"get configmaps -A -l shown=yes --disable-compression -o json", 0, `"a": "b"`},
		{"get configmaps --as bob", 1, `User "bob" cannot list`},
		{"get configmaps --as bob --as-group transparency --as-group other -o name", 0, "configmap/read"},
		{"get configmaps --as system:serviceaccount:default:x", 1, "system:serviceaccount:default:x"},
		{"get pods --request-timeout=30s", 0, "Running"},
		{"get --raw /version", 0, "gitVersion"},
		{"get --raw /healthz?verbose", 0, "check passed"},
		{"get --raw /no/such/path", 1, "NotFound"},
		{"get --raw /api/v1/namespaces/default/configmaps/%72ead", 0, `"a":"b"`},
		{"get --raw /api/v1/namespaces/default/configmaps?labelSelector=shown%3Dyes&limit=1", 0, `"a":"b"`},
		{"get --raw /openapi/v2", 0, "swagger"},
		{"describe pod p", 0, "Container"},
		{"api-resources", 0, "configmaps"},
		{"api-versions", 0, "certificates.k8s.io/v1"},
		{"explain pod.spec.containers", 0, "DESCRIPTION"},
		{"version -o yaml", 0, "serverVersion"},
		{"cluster-info", 0, "SERVER"},
		{"auth whoami -o yaml", 0, "username: jane"},
		{"auth can-i create pods", 0, "yes"},
		{"auth can-i create pods --as bob", 1, "no"},
		{"auth can-i --list", 0, "*.*"},
		{"wait --for=condition=Ready pod/p --timeout=20s", 0, "condition met"},
		{"wait --for=jsonpath={.data.a}=b configmap/read --timeout=20s", 0, "condition met"},
		// Of a watch that it ends itself within a second, kubectl warns at times.
		{"wait --for=delete configmap/read --timeout=3s", 1, "timed out"},
		{"events", 0, ""},
	} {
		s.T.Run(c.command, func(t *testing.T) {
			s := s.in(t)
			s.wants(s.same("", strings.Fields(c.command)...), c.code, c.text)
		})
	}
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1"}]}
`

// changes are commands that change a namespace of the way's own, one building
// on the other.
func (s *stage) changes() {
	dir := filepath.Join(s.Dir, "manifests")
	s.Must(os.Mkdir(dir, 0o700))
	for i := range 5 {
		manifest := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: in-dir-%d}, data: {a: b}}\n", i)
		s.Must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(manifest), 0o600))
	}
	const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {a: b}}"
	for _, c := range []struct {
		command string
		stdin   string
		code    int
		text    string
	}{
		{"create -f - -v=0", configMap, 0, "configmap/cm created"},
		{"create -f -", configMap, 1, "AlreadyExists"},
		{"create configmap twice --from-literal=a=b --dry-run=server -o yaml", "", 0, "a: b"},
		{"apply -f " + dir, "", 0, "configmap/in-dir-4 created"},
		{"apply -f " + dir, "", 0, "configmap/in-dir-4 unchanged"},
		{"diff -f " + dir, "", 0, ""},
		{"diff -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: in-dir-1}, data: {a: c}}", 1, "+  a: c"},
		{"apply --server-side -f -", configMap, 0, "serverside-applied"},
		{"apply --server-side --field-manager=other -f -", strings.Replace(configMap, "a: b", "a: c", 1), 1, "conflict"},
		{"apply --server-side --field-manager=other --force-conflicts -f -", strings.Replace(configMap, "a: b", "a: c", 1), 0, "serverside-applied"},
		{"replace -f -", configMap, 0, "configmap/cm replaced"},
		{`patch configmap cm -p {"data":{"p":"q"}}`, "", 0, "patched"},
		{`patch configmap cm --type=merge -p {"data":{"m":"q"}}`, "", 0, "patched"},
		{`patch configmap cm --type=json -p [{"op":"remove","path":"/data/m"}]`, "", 0, "patched"},
		{`patch configmap cm --type=json -p [{"op":"remove","path":"/data/m"}]`, "", 1, "request is invalid"},
		{"label configmap cm x=y", "", 0, "labeled"},
		{"annotate configmap cm x=y", "", 0, "annotated"},
		{"get configmap cm -o yaml", "", 0, "p: q"},
		{"create -f -", deployment, 0, "deployment.apps/web created"},
		{"scale deployment web --replicas=3", "", 0, "scaled"},
		{"set image deployment/web web=web:2", "", 0, "image updated"},
		{"rollout restart deployment web", "", 0, "restarted"},
		{"rollout history deployment web", "", 0, "No rollout history"},
		{"rollout status deployment web --timeout=3s", "", 1, "timed out"},
		{"create token nobody", "", 1, "not found"},
		{"delete configmap in-dir-0 in-dir-1 none", "", 1, "NotFound"},
		{"delete -f " + dir + " --ignore-not-found", "", 0, "deleted"},
		{"delete configmaps --all", "", 0, "deleted"},
		{"delete deployment web --cascade=foreground --wait=false", "", 0, "deleted"},
	} {
		s.T.Run(c.command, func(t *testing.T) {
			s := s.in(t)
			s.wants(s.same(c.stdin, append([]string{"-n", "NAMESPACE"}, strings.Fields(c.command)...)...), c.code, c.text)
		})
	}
}

// large are bodies that no buffer holds.
func (s *stage) large() {
	const n, size = 36, 300_000
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list,
			"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"large-%d\"},\"data\":{\"a\":%q}}\n---\n",
			i, strings.Repeat("kubehsm ", size/8))
	}
	full := filepath.Join(s.Dir, "full")
	s.Must(os.WriteFile(full, []byte(strings.Repeat("x", 1<<20-16)), 0o600))
	tooMuch := filepath.Join(s.Dir, "too-much")
	s.Must(os.WriteFile(tooMuch, []byte(strings.Repeat("x", 4<<20)), 0o600))

	s.wants(s.same(list.String(), "-n", "NAMESPACE", "create", "-f", "-"), 0, "large-35 created")
	for _, options := range [][]string{{"--chunk-size=7"}, {"--chunk-size=0", "--disable-compression"}} {
		res := s.same("", append([]string{"-n", "NAMESPACE", "get", "configmaps", "-o", "json"}, options...)...)
		if len(res.Stdout) < n*size {
			s.T.Errorf("%v: a list of %d bytes, want %d and more", options, len(res.Stdout), n*size)
		}
	}
	s.wants(s.same("", "-n", "NAMESPACE", "create", "configmap", "full", "--from-file=a="+full), 0, "created")
	s.wants(s.same("", "-n", "NAMESPACE", "create", "configmap", "too-much", "--from-file=a="+tooMuch), 1, "error")
	s.wants(s.same("", "-n", "NAMESPACE", "delete", "configmaps", "--all"), 0, "deleted")
}

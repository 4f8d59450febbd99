//go:build linux

package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// TestQuestionsOfKubectl: what the question says of the bodies that a real kubectl sends to a
// real API server, which takes them as they were told of.
func TestQuestionsOfKubectl(t *testing.T) {
	t.Parallel()
	u := newUser(t, lab.Options{})
	u.enroll()
	namespace := unique("body")
	u.admin("create", "namespace", namespace)
	poll.Until(t, "the namespace has its service account", func() bool {
		_, err := u.Cluster.Admin(t.Context(), "", "get", "serviceaccount", "default", "-n", namespace)
		return err == nil
	})
	u.consents("writes")
	const hidden = "s3cr3t-v4lue"
	// kubectl sends the objects that it makes itself as protobuf.
	const protobuf = "not read: the body is protobuf"
	for name, manifest := range map[string]string{"binding.yaml": `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ` + namespace + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]
`, "secret.yaml": `apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {password: ` + hidden + `}
`, "deployment.yaml": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      hostPID: true
      containers:
      - name: c
        image: example.com/web:1
        command: [sleep, "1000"]
        securityContext: {capabilities: {add: [SYS_ADMIN]}}
        env: [{name: PASSWORD, value: ` + hidden + `}]
`} {
		must.OK(t, os.WriteFile(filepath.Join(u.Dir, name), []byte(manifest), 0o600))
	}
	kubectl := "kubectl -n " + namespace + " "
	for _, c := range []struct {
		command string
		want    []string
		done    string
	}{
		{"create -f deployment.yaml", []string{"create deployments.apps", `Deployment "web"`, "shares the node's processes",
			"container c: capabilities SYS_ADMIN", "container c: image", "runs \"sleep 1000\"", " bytes, SHA-256 "}, "created"},
		{"create -f binding.yaml", []string{
			"create clusterrolebindings.rbac.authorization.k8s.io", `gives ClusterRole "view"`, `to User "eve"`},
			"is forbidden"},
		{"create -f secret.yaml", []string{
			"create secrets", `Secret "s"`, "stringData: 1 key, password; values are not shown"}, "created"},
		{"create configmap c --from-literal=a=b", []string{"create configmaps", protobuf}, "created"},
		{"apply --server-side --force-conflicts -f deployment.yaml", []string{"patch deployments.apps", `Name          "web"`,
			`Deployment "web"`, "container c: image"}, "serverside-applied"},
		{"patch deployment web -p '{\"spec\":{\"replicas\":0}}'", []string{"patch deployments.apps", "replicas: 0",
			"sets spec.replicas"}, "patched"},
		{`patch deployment web --type json -p '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"evil"}]'`,
			[]string{`replace "/spec/template/spec/containers/0/image"`, "container: image evil"}, "patched"},
		{"set image deployment/web c=other", []string{"container c: image other"}, "image updated"},
		{"scale deployment web --replicas=0", []string{"deployments.apps/scale", "replicas: 0"}, "scaled"},
		{"label secret s a=b", []string{"patch secrets", "sets metadata.labels.a"}, "labeled"},
		{"create token default --duration=1h", []string{"create serviceaccounts/token", protobuf}, "ey"},
		{"expose deployment web --port=80 --type=NodePort", []string{"create services", "type NodePort", "ports 80"}, "exposed"},
		{"delete secret s", []string{"delete secrets", "deletes what belongs to it, too (Background)"}, "deleted"},
		{"delete deployment web --grace-period=0 --force", []string{"grace: 0 s"}, "deleted"},
	} {
		t.Run(c.command, func(t *testing.T) {
			u := u.in(t)
			s := u.sh(kubectl + c.command + "; echo code $?")
			s.WaitFor(append(c.want, question, "Program       /", "A yes         covers all its further ")...)
			for line := range strings.Lines(s.Frame().Text()) {
				if strings.Contains(line, hidden) {
					t.Errorf("a value is shown: %s", line)
				}
			}
			s.Type("y\r")
			s.WaitFor(c.done, "code ")
			s.Exit()
			if strings.Contains(s.Output(), hidden) {
				t.Errorf("a value is shown:\n%s", s.Output())
			}
		})
	}
	t.Run("on record", func(t *testing.T) {
		u := u.in(t)
		out := u.kubehsm("audit", "-o", "json")
		if strings.Contains(out, hidden) || strings.Count(out, `\"sha256\":\"`) != 14 {
			t.Errorf("the log:\n%s", out)
		}
	})
}

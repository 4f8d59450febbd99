package revocation

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

var update = flag.Bool("update", false, "write the table in docs/revocation.md")

// The table stands between these lines.
const (
	tableFile  = "../../docs/revocation.md"
	tableBegin = "<!-- measured by test/revocation -->\n"
	tableEnd   = "<!-- end -->\n"
)

// action is something that a user does with kubectl.
type action struct {
	what  string
	args  string // split at spaces; NEW is a new name
	stdin string
}

// actions are the verbs and ways of the table.
var actions = []action{
	{"create", "create configmap NEW", ""},
	{"create, dry run", "create configmap NEW --dry-run=server", ""},
	{"update", "label configmap kept a=NEW --overwrite", ""},
	{"patch", `patch configmap kept -p {"data":{"a":"NEW"}}`, ""},
	{"server-side apply", "apply --server-side --force-conflicts -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {b: c}}"},
	{"delete", "delete configmap kept --dry-run=server", ""},
	{"delete a collection", "delete --raw /api/v1/namespaces/default/configmaps?dryRun=All", ""},
	{"file a certificate request", "create -f -", ""},
	{"a service account's token", "create token default", ""},
	{"evict a pod", "create --raw /api/v1/namespaces/default/pods/probe/eviction?dryRun=All -f -",
		`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"probe","namespace":"default"},"deleteOptions":{"dryRun":["All"]}}`},
	{"exec", "exec probe -- true", ""},
	{"attach", "attach -q -i probe", "heard\n"},
	{"port-forward", "get --raw /api/v1/namespaces/default/pods/probe/portforward?ports=80", ""},
	{"proxy to a pod", "get --raw /api/v1/namespaces/default/pods/probe:80/proxy/", ""},
	{"proxy to a service", "get --raw /api/v1/namespaces/default/services/probe:80/proxy/", ""},
	{"proxy to a node", "get --raw /api/v1/nodes/stub/proxy/healthz", ""},
	{"get", "get configmap kept", ""},
	{"list", "get configmaps", ""},
	{"watch", "get configmap kept --watch --request-timeout=1s", ""},
	{"logs", "logs probe", ""},
	{"ask who one is", "auth whoami", ""},
	{"ask what one may", "auth can-i create configmaps", ""},
	{"delete the policy itself", "delete validatingadmissionpolicy kubehsm-revoked-none", ""},
}

// nobodys is the address of the authorizer, authorizers how [answer] writes it. kubectl does
// not always say why it was refused.
const (
	nobodys     = "127.0.0.1:1"
	authorizers = "0.0.0.0:0"
)

// ways are how a revoked certificate is used.
var ways = []struct{ what, flags string }{{"as oneself", ""}, {"with `--as`", "--as=rescuer"}}

// answer runs an action with kubectl and returns what it said, without what differs each time.
func answer(t *testing.T, c *controlplane.Cluster, p person, a action, flags, name string) (said string, ok bool) {
	t.Helper()
	args := append([]string{"--kubeconfig=" + p.file}, strings.Fields(flags)...)
	for _, w := range strings.Fields(a.args) {
		args = append(args, strings.ReplaceAll(w, "NEW", name))
	}
	stdin := a.stdin
	if a.what == "file a certificate request" {
		stdin = requestFor(t, name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Kubectl(), args...)
	cmd.Env = append(os.Environ(), c.KubectlEnv()...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s %s: %v: %s", a.what, flags, ctx.Err(), out)
	}
	return regexp.MustCompile("[0-9]+").ReplaceAllString(string(out), "0"), err == nil
}

// authorizing starts a control plane whose authorizers are those of an empty list; write changes them.
func authorizing(t *testing.T, o controlplane.Options) (c *controlplane.Cluster, write func(revocation.List)) {
	t.Helper()
	dir := t.TempDir()
	config, nobody := dir+"/authorization.yaml", dir+"/nobody.kubeconfig"
	write = func(l revocation.List) {
		text := strings.ReplaceAll(l.Authorizer(), revocation.AuthorizerKubeconfigFile, nobody)
		must.OK(t, os.WriteFile(config+".new", []byte(text), 0o600))
		must.OK(t, os.Rename(config+".new", config))
	}
	must.OK(t, os.WriteFile(nobody, []byte(revocation.AuthorizerKubeconfig), 0o600))
	write(revocation.List{})
	o.APIServerFlags = []string{"--authorization-config=" + config}
	return controlplane.StartForTest(t, o), write
}

// TestTable: which requests are stopped by the policy, and by the authorizer that `kubehsm rbac
// print --revocation-authorizer` prints. What stops nobody else is compared with docs/revocation.md.
func TestTable(t *testing.T) {
	c, write := authorizing(t, controlplane.Options{})
	must.OK(t, c.Apply(t.Context(), `
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: default}}
---
{apiVersion: v1, kind: Service, metadata: {name: probe, namespace: default}, spec: {selector: {app: probe}, ports: [{port: 80}]}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: trusted},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}, {apiGroup: rbac.authorization.k8s.io, kind: User, name: rescuer}]}
`))
	must.OK(t, c.RunPod(t.Context(), "default", "probe"))
	lost, kept := someone(t, c, "jane"), someone(t, c, "jane")
	l := ledger(t, c)
	shards, err := l.Revoke(t.Context(), time.Now(), lost.entry)
	must.OK(t, err)
	awaitInForce(t, configFrom(t, c.AdminKubeconfig()), shards)
	rows := map[string][]bool{}
	measure := func(words string) {
		for i, a := range actions {
			for j, w := range ways {
				name := func(who int) string { return fmt.Sprintf("new-%d", 1000*len(rows[a.what])+100*who+10*i+j) }
				good, worked := answer(t, c, kept, a, w.flags, name(1))
				said, works := answer(t, c, lost, a, w.flags, name(2))
				t.Logf("%s %s:\n%v %.200s\n%v %.300s", a.what, w.flags, worked, good, works, said)
				stopped := !works && (worked || said != good)
				if words != authorizers && stopped != strings.Contains(said, words) {
					t.Errorf("%s %s: stopped %v, and it says %s", a.what, w.flags, stopped, said)
				}
				if strings.Contains(good, words) {
					t.Errorf("%s %s: another certificate of the same user is stopped: %s", a.what, w.flags, good)
				}
				rows[a.what] = append(rows[a.what], stopped)
			}
		}
	}
	measure("was revoked on")
	kubelet := func() string { // what a kubelet asks about who comes to its own port
		out, err := c.Admin(t.Context(), fmt.Sprintf(`{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview,
 metadata: {}, spec: {user: jane, groups: [system:authenticated], extra: {%s: [%s%s]},
 resourceAttributes: {verb: create, resource: nodes, subresource: proxy, name: stub}}}`, revocation.CredentialID,
			revocation.CertificatePrefix, lost.entry.Certificate), "create", "-f", "-", "-o", "jsonpath={.status.allowed}")
		must.OK(t, err)
		return out
	}
	if got := kubelet(); got != "true" {
		t.Errorf("by the policy a kubelet may not let it in: %s", got)
	}

	list, err := l.Read(t.Context())
	must.OK(t, err)
	_, err = l.Lift(t.Context(), time.Now(), lost.entry.Certificate)
	must.OK(t, err)
	awaitLifted(t, lost)
	write(list)
	began := time.Now()
	poll.Until(t, "the authorizer is read again", func() bool {
		err := create(t.Context(), lost.config, "probing")
		return err != nil && strings.Contains(err.Error(), nobodys)
	})
	t.Logf("the authorizer is in force after %s", time.Since(began))
	// The API server remembers for 10 seconds that a certificate may impersonate, request by request:
	// k8s.io/apiserver/pkg/endpoints/filters/impersonation/cache.go.
	poll.Until(t, "the API server forgets the last request with --as", func() bool {
		said, _ := answer(t, c, lost, actions[len(actions)-1], "--as=rescuer", "")
		return !strings.Contains(said, "NotFound")
	})
	t.Logf("requests with --as are stopped after %s", time.Since(began))
	measure(authorizers)
	if got := kubelet(); got == "true" {
		t.Error("by the authorizer a kubelet lets it in")
	}

	var b strings.Builder
	b.WriteString("\n| | policy, as oneself | policy, with `--as` | authorizer, as oneself | authorizer, with `--as` |\n|---|---|---|---|---|\n")
	for _, a := range actions {
		b.WriteString("| " + a.what)
		for _, stopped := range rows[a.what] {
			b.WriteString(" | " + map[bool]string{true: "refused", false: "passes"}[stopped])
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
	compare(t, b.String())
}

// TestManyAuthorizers: an API server takes the authorizer's file with 20,000 certificates, and
// refuses those on it everything.
func TestManyAuthorizers(t *testing.T) {
	c, write := authorizing(t, controlplane.Options{NoControllers: true})
	must.OK(t, c.Apply(t.Context(), everybody))
	lost, kept := someone(t, c, "jane"), someone(t, c, "jane")
	must.OK(t, create(t.Context(), lost.config, "before"))
	write(revocation.List{Shards: []revocation.Shard{{Entries: manyWith(lost.entry, 20_000)}}})
	began := time.Now()
	poll.Until(t, "the authorizer is read", func() bool {
		err := create(t.Context(), lost.config, "probing")
		return err != nil && strings.Contains(err.Error(), nobodys)
	})
	t.Logf("20,001 certificates are in force after %s", time.Since(began))
	must.OK(t, create(t.Context(), kept.config, "kept"))
}

// awaitLifted waits until a certificate writes again.
func awaitLifted(t *testing.T, p person) {
	t.Helper()
	poll.Until(t, "it is lifted", func() bool { return create(t.Context(), p.config, "lifted") == nil })
}

// compare has the table in the document be as it was measured.
func compare(t *testing.T, table string) {
	t.Helper()
	doc, err := os.ReadFile(tableFile)
	must.OK(t, err)
	before, rest, found := strings.Cut(string(doc), tableBegin)
	was, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("no table in %s", tableFile)
	}
	switch {
	case was == table:
	case *update:
		must.OK(t, os.WriteFile(tableFile, []byte(before+tableBegin+table+tableEnd+after), 0o644))
	default:
		t.Errorf("%s has\n%s\nmeasured was (write it with -update)\n%s", tableFile, was, table)
	}
}

package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/poll"
)

// holder is somebody with a client certificate.
type holder struct {
	entry  revocation.Entry
	client *kubernetes.Clientset
}

func (l *lab) holder(user string) holder {
	l.t.Helper()
	file, err := l.c.KubeconfigFor(user, "everybody")
	if err != nil {
		l.t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		l.t.Fatal(err)
	}
	block, _ := pem.Decode(config.CertData)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		l.t.Fatal(err)
	}
	return holder{revocation.EntryOf(cert), client}
}

// write creates a ConfigMap in a dry run.
func (h holder) write(ctx context.Context) error {
	_, err := h.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// revocationOf is one of what entries are about.
func revocationOf(name, by string, entries ...revocation.Entry) clusterapi.Revocation {
	r := clusterapi.Revocation{TypeMeta: metav1.TypeMeta{APIVersion: clusterapi.GroupVersion.String(), Kind: "Revocation"},
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterapi.Namespace, Name: name},
		Spec:       clusterapi.RevocationSpec{By: by, Reason: "lost in a train"}}
	for _, e := range entries {
		r.Spec.User = e.User
		r.Spec.Certificates = append(r.Spec.Certificates, clusterapi.RevokedCertificate{Fingerprint: e.Certificate, Key: e.Key,
			NotAfter: &metav1.Time{Time: e.NotAfter}})
	}
	return r
}

// as runs kubectl with a kubeconfig and an object for its input.
func (l *lab) as(kubeconfig string, o any, args ...string) (string, error) {
	l.t.Helper()
	manifest, err := json.Marshal(o)
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.CommandContext(l.t.Context(), l.c.Kubectl(), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), l.c.KubectlEnv()...), bytes.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (l *lab) revocation(name string) (r clusterapi.Revocation, there bool) {
	l.t.Helper()
	out, err := l.c.Admin(l.t.Context(), "", "-n", clusterapi.Namespace, "get", "revocation", name, "-ojson", "--ignore-not-found")
	if err != nil {
		l.t.Fatal(err)
	}
	if out == "" {
		return r, false
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		l.t.Fatal(err)
	}
	return r, true
}

func (l *lab) inForce(name string) bool {
	r, _ := l.revocation(name)
	return meta.IsStatusConditionTrue(r.Status.Conditions, clusterapi.InForce)
}

// everybody may write ConfigMaps in the namespace default.
const everybody = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everybody}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: everybody}]
`

// TestRevocations: the help desk revokes certificates by an object, and can neither change it nor say that
// somebody else made it. Another certificate goes on, and so do the entries that an admin wrote. Broken policies
// have an Event, and are put right.
func TestRevocations(t *testing.T) {
	l := newLab(t, controlplane.Options{})
	l.apply(everybody)
	l.quota()
	desk, err := l.c.KubeconfigFor("jill", "kubehsm:helpdesk")
	if err != nil {
		t.Fatal(err)
	}
	early, lost, other := l.holder("harry"), l.holder("jane"), l.holder("jane")
	early.entry.By = "boss"
	shard := revocation.Shard{Name: revocation.PolicyPrefix + "1", Entries: []revocation.Entry{early.entry}}
	for _, o := range []revocation.Object{shard.Policy(), shard.Binding()} {
		manifest, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		l.apply(string(manifest))
	}
	l.start()

	long := make([]revocation.Entry, clusterapi.MaxRevoked+1)
	for i := range long {
		long[i] = revocation.Entry{Certificate: fmt.Sprintf("%064x", i)}
	}
	for name, c := range map[string]struct {
		revocation clusterapi.Revocation
		says       string
	}{
		"in-another-name": {revocationOf("x", "boss", lost.entry), "in their own name"},
		"of-nothing":      {revocationOf("x", "jill"), "certificates"},
		"of-too-many":     {revocationOf("x", "jill", long...), "at most 100"},
		"of-everybody":    {revocationOf("x", "jill", revocation.Entry{Certificate: "*"}), "should match"},
		"of-a-node": {revocationOf("x", "jill", revocation.Entry{Certificate: lost.entry.Certificate, User: "system:node:n"}),
			"the control plane"},
	} {
		if out, err := l.as(desk, c.revocation, "create", "-f", "-"); err == nil || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
	for kind, spec := range map[string]string{ // the API server takes it for a time, and Go does not
		"HardwareToken": `{"state":"Stock","horizon":"2027-01-01T00:00:00Ztea"}`,
		"Revocation": `{"by":"jill","certificates":[{"fingerprint":"` + lost.entry.Certificate +
			`","notAfter":"2027-01-01T00:00:00Ztea"}]}`,
	} {
		o := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":"77"},"spec":%s}`,
			clusterapi.GroupVersion, kind, clusterapi.Namespace, spec)
		if out, err := l.as(desk, json.RawMessage(o), "create", "-f", "-"); err == nil || !strings.Contains(out, "should match") {
			t.Errorf("a %s with an odd time: %v, %s", kind, err, out)
		}
	}
	made := revocationOf("lost", "jill", lost.entry)
	longer := early.entry
	longer.Key, longer.NotAfter = other.entry.Key, longer.NotAfter.Add(time.Hour)
	for _, o := range []clusterapi.Revocation{revocationOf("longer", "jill", longer), made} {
		if out, err := l.as(desk, o, "create", "-f", "-"); err != nil {
			t.Fatal(out)
		}
		poll.Until(t, o.Name+" is in force", func() bool { return l.inForce(o.Name) })
	}
	var policy revocation.Object
	if err := json.Unmarshal([]byte(l.kubectl("get", "validatingadmissionpolicy", shard.Name, "-ojson")), &policy); err != nil {
		t.Fatal(err)
	}
	for e := range revocation.ListOf([]revocation.Object{policy}, nil).All() {
		if e.By == "boss" && (e.Key != early.entry.Key || !e.NotAfter.Equal(early.entry.NotAfter)) {
			t.Errorf("the desk has changed an admin's entry: %+v", e)
		}
	}
	r, _ := l.revocation("lost")
	if r.Status.InForceSince == nil || r.Status.Certificates != 1 || !r.Status.Until.Equal(&metav1.Time{Time: lost.entry.NotAfter}) {
		t.Errorf("the status is %+v", r.Status)
	}
	for name, c := range map[string]struct {
		holder
		by string
	}{"revoked by the desk": {lost, "by jill: lost in a train"}, "revoked by an admin before": {early, "by boss"}} {
		if err := c.write(t.Context()); !revocation.IsRefusal(err) || !strings.Contains(err.Error(), c.by) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := other.write(t.Context()); err != nil {
		t.Errorf("another certificate: %v", err)
	}
	for _, args := range [][]string{{"delete", "revocation", "lost", "-n", clusterapi.Namespace},
		{"patch", "revocation", "lost", "-n", clusterapi.Namespace, "--type=merge", "-p", `{"spec":{"reason":"none"}}`}} {
		if out, err := l.as(desk, made, args...); err == nil || !strings.Contains(out, "Forbidden") {
			t.Errorf("the desk may %s: %s", args[0], out)
		}
		if args[0] == "patch" {
			if out, err := l.as(l.c.AdminKubeconfig(), made, args...); err == nil || !strings.Contains(out, "cannot be changed") {
				t.Errorf("an admin may change it: %s", out)
			}
		}
	}

	ended := lost.entry
	ended.Certificate, ended.NotAfter = strings.Repeat("ab", 32), time.Unix(1_700_000_000, 0)
	if out, err := l.as(desk, revocationOf("ended", "jill", ended), "create", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	poll.Until(t, "one that has ended is gone", func() bool { _, there := l.revocation("ended"); return !there })

	l.kubectl("delete", "validatingadmissionpolicybinding", shard.Name)
	poll.Until(t, "the binding is back", func() bool {
		return strings.Contains(l.kubectl("get", "validatingadmissionpolicybinding"), shard.Name)
	})
	poll.Until(t, "the broken policy has an Event", func() bool {
		return strings.Contains(l.kubectl("get", "events.events.k8s.io", "-ojsonpath={.items[*].reason}"), "RevocationPolicyBroken")
	})
	l.kubectl("patch", "resourcequota", "kubehsm-revocations", "-n", clusterapi.Namespace, "--type=merge", "-p",
		`{"spec":{"hard":{"count/revocations.kubehsm.github.io":"1"}}}`)
	poll.Until(t, "the quota refuses one more", func() bool {
		out, err := l.as(desk, revocationOf("more", "jill", other.entry), "create", "--dry-run=server", "-f", "-")
		return err != nil && strings.Contains(out, "exceeded quota")
	})
	l.kubectl("delete", "revocation", "lost", "-n", clusterapi.Namespace)
	poll.Until(t, "it stays revoked", func() bool { return revocation.IsRefusal(lost.write(t.Context())) })
}

// gate stands between the approver and the API server. It kills the approver at one of the writes that
// revoke certificates.
type gate struct {
	mu    sync.Mutex
	at    int  // kills at this write from now on; 0 never
	after bool // the API server still gets that write
	kill  func()
	dead  chan struct{}
}

// arm has the gate kill at a write from now on.
func (g *gate) arm(r *replica, at int, after bool) (dead chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.after, g.kill, g.dead = at, after, r.kill, make(chan struct{})
	return g.dead
}

// falls tells whether the gate kills at a request.
func (g *gate) falls(r *http.Request) (kill func(), after bool) {
	writes := r.Method != http.MethodGet && (strings.Contains(r.URL.Path, "/validatingadmissionpolic") ||
		strings.Contains(r.URL.Path, "/revocations"))
	g.mu.Lock()
	defer g.mu.Unlock()
	if !writes || g.at == 0 {
		return nil, false
	}
	if g.at--; g.at > 0 {
		return nil, false
	}
	return func() { g.kill(); close(g.dead) }, g.after
}

// through has the lab's approver reach its API server by the gate.
func (g *gate) through(l *lab) {
	args := l.approver.Command("", "").Args
	_, file, _ := strings.Cut(args[len(args)-1], "--kubeconfig=")
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		l.t.Fatal(err)
	}
	to, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: l.c.CAFile()}})
	if err != nil {
		l.t.Fatal(err)
	}
	target, err := url.Parse(l.c.Server())
	if err != nil {
		l.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = to, -1
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kill, after := g.falls(r)
		switch {
		case kill == nil:
			proxy.ServeHTTP(w, r)
			return
		case after:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		kill()
		panic(http.ErrAbortHandler)
	}))
	l.t.Cleanup(server.Close)
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: server.Certificate().Raw})
	}
	l.gate = filepath.Join(l.t.TempDir(), "gate.kubeconfig")
	if err := clientcmd.WriteToFile(*config, l.gate); err != nil {
		l.t.Fatal(err)
	}
}

// TestRevocationKilled: the approver is killed at each of its writes, before the API server gets it and after.
// What was in force is so at every moment, and the next approver finishes the work.
func TestRevocationKilled(t *testing.T) {
	l := newLab(t, controlplane.Options{})
	l.apply(everybody)
	l.quota()
	g := &gate{}
	g.through(l)
	r := l.start()
	first := l.holder("first")
	ctx, stop := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	writes := 0
	revoke := func(at int, after bool) (killed bool) {
		name := fmt.Sprintf("at-%d-%t", at, after)
		next := first
		if writes > 0 {
			next = l.holder(name)
		}
		dead := g.arm(r, at, after)
		if out, err := l.as(l.c.AdminKubeconfig(), revocationOf(name, "test-admin", next.entry), "create", "-f", "-"); err != nil {
			t.Fatal(out)
		}
		poll.Until(t, name+" is in force, or the approver is killed", func() bool {
			select {
			case <-dead:
				return true
			default:
				return l.inForce(name)
			}
		})
		select {
		case <-dead:
			killed = true
			l.kubectl("delete", "lease", "kubehsm-cluster", "-n", clusterapi.Namespace)
			r = l.start()
			poll.Until(t, name+" is in force", func() bool { return l.inForce(name) })
		default:
		}
		if err := next.write(t.Context()); !revocation.IsRefusal(err) {
			t.Errorf("%s: %v", name, err)
		}
		return killed
	}
	for at := 1; ; at++ {
		killed := revoke(at, false)
		if writes == 0 { // the first is in force: from now on always
			loop.Go(func() {
				for ctx.Err() == nil {
					if err := first.write(ctx); !revocation.IsRefusal(err) && ctx.Err() == nil {
						t.Errorf("what was revoked writes: %v", err)
						return
					}
				}
			})
		}
		writes++
		if !killed {
			break
		}
		revoke(at, true)
	}
	stop()
	loop.Wait()
	if writes < 3 {
		t.Errorf("only %d writes were killed", writes-1)
	}
}

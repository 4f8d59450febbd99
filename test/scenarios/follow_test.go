//go:build linux

package scenarios

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// read is the content of a file.
func (u *user) read(path string) string {
	u.t.Helper()
	b, err := os.ReadFile(path)
	must(u.t, err)
	return string(b)
}

// leadsTo waits until the enrollment leads to a server with these authorities (PEM).
func (u *user) leadsTo(server, authorities string) {
	u.t.Helper()
	poll.Until(u.t, "the enrollment leads to "+server+" with its authorities", func() bool {
		var e enrollment.Enrollment
		text := u.read(filepath.Join(u.Home, "state", "enrollments", enrolled+".json"))
		return json.Unmarshal([]byte(text), &e) == nil && e.Cluster.Server == server &&
			string(e.Cluster.CAData) == authorities
	})
}

// TestFollowsTheCluster: a cluster's authority and address are replaced, one after the other, while kubectl watches.
// The agent follows what cluster-info announces: kubectl works on at the new address when the old API server is
// gone, and nobody is asked. Where the agent may not follow, the person's command with the hash of the new authority
// mends it.
func TestFollowsTheCluster(t *testing.T) {
	t.Parallel()
	cluster := controlplane.StartForTest(t, controlplane.Options{})
	next, err := cluster.AddAPIServer(t.Context(), controlplane.AddedAPIServer{NextCA: true})
	must(t, err)
	u, stays := newUser(t, lab.Options{Cluster: cluster}), newUser(t, lab.Options{Cluster: cluster})
	u.configure("follow: 1s\n")
	stays.configure("follow: never\n")
	oldCA, nextCA := u.read(cluster.CAFile()), u.read(cluster.NextCAFile())
	publish := func(server, authorities string) {
		t.Helper()
		must(t, cluster.PublishDocument(t.Context(), controlplane.InfoDocument(server, []byte(authorities))))
	}
	publish(cluster.Server(), oldCA)
	u.enroll()
	stays.enroll()
	watch := u.sh("kubectl get namespaces --watch -o name")
	watch.WaitFor("namespace/default")
	signed := u.agentStatus().Signatures

	publish(cluster.Server(), oldCA+nextCA)
	u.leadsTo(cluster.Server(), oldCA+nextCA)
	u.kubectl("get", "namespaces")
	publish(next, oldCA+nextCA)
	u.leadsTo(next, oldCA+nextCA)
	if strings.Contains(u.read(u.Kubeconfig), next) {
		t.Error("the kubeconfig was changed without a command of the person")
	}
	res := u.ran(u.Kubectl(t.Context(), "get", "namespaces"))
	if res.Code != 0 || !strings.Contains(res.Stderr, "has moved to") || !strings.Contains(u.read(u.Kubeconfig), next) {
		t.Errorf("the first command after the move: %s\nthe kubeconfig:\n%s", res, u.read(u.Kubeconfig))
	}
	if res := u.ran(u.Kubectl(t.Context(), "get", "namespaces")); res.Code != 0 || res.Stderr != "" {
		t.Errorf("the second command after the move: %s", res)
	}
	publish(next, nextCA)
	u.leadsTo(next, nextCA)
	u.admin("create", "namespace", "since-the-move")
	watch.WaitFor("namespace/since-the-move") // from the old API server
	stays.leadsTo(cluster.Server(), oldCA)
	stays.kubectl("get", "namespaces")
	if out := stays.kubehsm("agent", "status"); !strings.Contains(out, "`follow: never`") {
		t.Errorf("the agent that may not follow does not say so:\n%s", out)
	}
	must(t, cluster.StopAPIServer(t.Context()))

	u.kubectl("create", "configmap", "at-the-new-address")
	if s := u.agentStatus(); s.Signatures-signed != 3 { // one for each change
		t.Errorf("%d signatures for three changes", s.Signatures-signed)
	}
	if res := stays.ran(stays.Kubectl(t.Context(), "get", "namespaces")); res.Code == 0 {
		t.Errorf("what did not follow works: %s", res)
	}
	pins, err := discovery.PinsOf([]byte(nextCA))
	must(t, err)
	stays.kubehsm("kubeconfig", "refresh", enrolled, "--server", next, "--discovery-token-ca-cert-hash", pins[0].String(), "--yes")
	stays.leadsTo(next, nextCA)
	if out := stays.kubectl("get", "configmaps", "-o", "name"); !slices.Contains(strings.Fields(out),
		"configmap/at-the-new-address") {
		t.Errorf("at the new address: %s", out)
	}
}

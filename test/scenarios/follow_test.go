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
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/test/poll"
)

// read is the content of a file.
func (u *user) read(path string) string {
	u.t.Helper()
	b, err := os.ReadFile(path)
	must.OK(u.t, err)
	return string(b)
}

// leadsTo checks that the enrollment leads to a server with these authorities (PEM).
func (u *user) leadsTo(server, authorities string) {
	u.t.Helper()
	var e enrollment.Enrollment
	must.OK(u.t, json.Unmarshal([]byte(u.read(filepath.Join(u.Home, "state", "enrollments", enrolled+".json"))), &e))
	if e.Cluster.Server != server || string(e.Cluster.CAData) != authorities {
		u.t.Errorf("the enrollment leads to %s", e.Cluster.Server)
	}
}

// TestTellsOfTheCluster: a cluster's authority and address are replaced, one after the other. The agent tells, and
// changes nothing; the person's command follows, with a PIN, and kubectl works on at the new address when the old API
// server is gone. Who was away meanwhile needs the hash of the new authority.
func TestTellsOfTheCluster(t *testing.T) {
	t.Parallel()
	cluster := controlplane.StartForTest(t, controlplane.Options{})
	next, err := cluster.AddAPIServer(t.Context(), controlplane.AddedAPIServer{NextCA: true})
	must.OK(t, err)
	u, away := newUser(t, lab.Options{Cluster: cluster}), newUser(t, lab.Options{Cluster: cluster})
	u.configure("follow: 1s\n")
	away.configure("follow: never\n")
	oldCA, nextCA := u.read(cluster.CAFile()), u.read(cluster.NextCAFile())
	publish := func(server, authorities string) {
		t.Helper()
		must.OK(t, cluster.PublishDocument(t.Context(), controlplane.InfoDocument(server, []byte(authorities))))
	}
	publish(cluster.Server(), oldCA)
	u.enroll()
	away.enroll()
	away.kubectl("get", "namespaces")
	if out := away.kubehsm("agent", "status"); !strings.Contains(out, "`follow: never`") {
		t.Errorf("the agent that does not look does not say so:\n%s", out)
	}
	for _, step := range []struct{ server, authorities string }{{cluster.Server(), oldCA + nextCA}, {next, oldCA + nextCA},
		{next, nextCA}} {
		u.kubectl("get", "namespaces") // the agent looks over a connection that is open
		before := u.read(filepath.Join(u.Home, "state", "enrollments", enrolled+".json"))
		publish(step.server, step.authorities)
		poll.Until(t, "the agent tells", func() bool {
			return strings.Contains(u.kubehsm("agent", "status"), "announces a new address or authority")
		})
		if now := u.read(filepath.Join(u.Home, "state", "enrollments", enrolled+".json")); now != before {
			t.Errorf("the agent has changed the record:\n%s", now)
		}
		u.ok(u.KubehsmPIN(t.Context(), lab.PIN, "kubeconfig", "refresh", enrolled, "--yes"))
		u.leadsTo(step.server, step.authorities)
		u.unlock()
	}
	if !strings.Contains(u.read(u.Kubeconfig), next) {
		t.Error("the kubeconfig does not name the new address")
	}
	must.OK(t, cluster.StopAPIServer(t.Context()))
	u.kubectl("create", "configmap", "at-the-new-address")

	if res := away.ran(away.Kubectl(t.Context(), "get", "namespaces")); res.Code == 0 {
		t.Errorf("what did not follow works: %s", res)
	}
	pins, err := discovery.PinsOf([]byte(nextCA))
	must.OK(t, err)
	away.ok(away.KubehsmPIN(t.Context(), lab.PIN, "kubeconfig", "refresh", enrolled, "--server", next,
		"--discovery-token-ca-cert-hash", pins[0].String(), "--yes"))
	away.leadsTo(next, nextCA)
	away.unlock()
	if out := away.kubectl("get", "configmaps", "-o", "name"); !slices.Contains(strings.Fields(out),
		"configmap/at-the-new-address") {
		t.Errorf("at the new address: %s", out)
	}
}

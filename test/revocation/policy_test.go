package revocation

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubehsm/kubehsm/csr/revocation"
	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/must"
)

// everybody may write ConfigMaps in the namespace default.
const everybody = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: everybody, namespace: default},
 rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: everybody, namespace: default},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: everybody},
 subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]}
`

// TestReplicas: once an API server says that a shard is in force, it refuses the first write.
// Others of the same user, nodes and the recovery group go on. What is lifted works again.
func TestReplicas(t *testing.T) {
	c := controlplane.StartForTest(t, controlplane.Options{NoControllers: true})
	must.OK(t, c.Apply(t.Context(), everybody))
	servers := []string{c.Server()}
	for range 2 {
		url, err := c.AddAPIServer(t.Context(), controlplane.AddedAPIServer{})
		must.OK(t, err)
		servers = append(servers, url)
	}
	lost, kept := someone(t, c, "jane", "dev"), someone(t, c, "jane", "dev")
	node := someone(t, c, "system:node:stub", "system:nodes")
	rescuer := someone(t, c, "rescuer", revocation.RecoveryGroup)
	l := ledger(t, c)
	each := func(do func(at func(person) *rest.Config)) {
		for _, s := range servers {
			do(func(p person) *rest.Config {
				config := rest.CopyConfig(p.config)
				config.Host = s
				return config
			})
		}
	}
	shards, err := l.Revoke(t.Context(), time.Now(), lost.entry, node.entry, rescuer.entry)
	must.OK(t, err)
	each(func(at func(person) *rest.Config) {
		awaitInForce(t, at(kept), shards)
		if err := create(t.Context(), at(lost), "first"); !refused(err) {
			t.Errorf("the first write at %s: %v", at(lost).Host, err)
		}
		for _, p := range []person{kept, rescuer} {
			if err := create(t.Context(), at(p), "other"); err != nil {
				t.Error(err)
			}
		}
	})
	shards, err = l.Lift(t.Context(), time.Now(), lost.entry.Certificate)
	must.OK(t, err)
	each(func(at func(person) *rest.Config) {
		awaitInForce(t, at(kept), shards)
		if err := create(t.Context(), at(lost), "lifted"); err != nil {
			t.Error(err)
		}
	})
}

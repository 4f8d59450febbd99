package controlplane

import (
	"context"
	"fmt"
)

// nodeName is the one node, which the stub kubelet is.
const nodeName = "stub"

// RunPod makes a pod of the one container "main" that the API server takes for
// running, in a namespace that exists, on a node whose kubelet is a stub: see
// command kubelet in the module test/cluster. exec, attach, cp, logs and
// port-forward work in it; its processes are this machine's. Kubelet and node
// come with the first pod.
func (c *Cluster) RunPod(ctx context.Context, namespace, name string) error {
	if err := c.startOne(ctx, Kubelet); err != nil {
		return err
	}
	// The service account is not waited for: its controller may be left out.
	err := c.Apply(ctx, fmt.Sprintf(`
{apiVersion: v1, kind: Node, metadata: {name: %[1]s}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: %[2]s}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[3]s, namespace: %[2]s, labels: {app: %[3]s}}
spec:
  nodeName: %[1]s
  automountServiceAccountToken: false
  tolerations: [{operator: Exists}]
  containers: [{name: main, image: none, stdin: true, tty: true}]
`, nodeName, namespace, name))
	if err != nil {
		return fmt.Errorf("run a pod: %w", err)
	}
	for _, status := range []struct{ kind, name, patch string }{
		{"node", nodeName, fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],`+
			`"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, c.state.Ports.Kubelet)},
		{"pod", name, `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],` +
			`"containerStatuses":[{"name":"main","image":"none","imageID":"","ready":true,"restartCount":0,` +
			`"state":{"running":{"startedAt":"2020-01-01T00:00:00Z"}}}]}}`},
	} {
		if _, err := c.Admin(ctx, "", "-n", namespace, "patch", status.kind, status.name, "--subresource=status", "-p",
			status.patch); err != nil {
			return fmt.Errorf("run a pod: %w", err)
		}
	}
	return nil
}

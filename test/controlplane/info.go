package controlplane

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
)

// anonymousReads is kubeadm's rule for cluster-info.
const anonymousReads = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "kubeadm:bootstrap-signer-clusterinfo", namespace: kube-public}
rules:
- {apiGroups: [""], resources: [configmaps], resourceNames: [cluster-info], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "kubeadm:bootstrap-signer-clusterinfo", namespace: kube-public}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "kubeadm:bootstrap-signer-clusterinfo"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:anonymous"}
---
`

// PublishInfo publishes cluster-info as kubeadm does: that the cluster is at server, with
// the authorities in further files beside its own.
func (c *Cluster) PublishInfo(ctx context.Context, server string, further ...string) error {
	var ca []byte
	for _, file := range append([]string{c.CAFile()}, further...) {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		ca = append(ca, b...)
	}
	return c.PublishDocument(ctx, InfoDocument(server, ca))
}

// InfoDocument is the kubeconfig in a cluster-info: that the cluster is at server,
// with the authorities in ca (PEM).
func InfoDocument(server string, ca []byte) string {
	return fmt.Sprintf(
		"apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n    server: %s\n    certificate-authority-data: %s\n",
		server,
		base64.StdEncoding.EncodeToString(ca),
	)
}

// PublishDocument publishes a cluster-info with that kubeconfig in it, which everybody may
// read.
func (c *Cluster) PublishDocument(ctx context.Context, document string) error {
	info, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": "cluster-info",
			"namespace": "kube-public"},
		"data": map[string]string{"kubeconfig": document},
	})
	if err != nil {
		return err
	}
	return c.Apply(ctx, anonymousReads+string(info))
}

//go:build linux

package lab

import (
	"context"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

// The groups that [Rights] gives rights to.
const (
	FilersGroup     = "csr-filers" // may file requests
	DevelopersGroup = "developers" // may edit what is in namespaces
)

const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: csr-filer}
rules:
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [create, get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: csr-filers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: csr-filer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: csr-filers}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: developers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: developers}]
`

// Rights gives the labs' groups their rights in a cluster.
func Rights(ctx context.Context, c *controlplane.Cluster) error { return c.Apply(ctx, rights) }

//go:build linux

package lab

import (
	"context"
	"fmt"
)

// ApplyRoles has the lab's program give a cluster the roles and policies of the
// sets named, all of them if none is.
func (l *Lab) ApplyRoles(ctx context.Context, sets ...string) error {
	res, err := l.Run(ctx, Run{Env: []string{"KUBECONFIG=" + l.Cluster.AdminKubeconfig()}}, l.Binary,
		append([]string{"rbac", "apply", "--yes"}, sets...)...)
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("rbac apply: %s", res)
	}
	return err
}

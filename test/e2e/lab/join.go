//go:build linux

package lab

import (
	"context"
	"fmt"
)

// ApplyRoles has the lab's program give a cluster the roles and policies of the
// sets named, all of them if none is.
func (l *Lab) ApplyRoles(ctx context.Context, sets ...string) error {
	res, err := l.Kubehsm(ctx, append([]string{"rbac", "print"}, sets...)...)
	if err == nil && res.Code == 0 {
		res, err = l.Run(ctx, Run{Env: []string{"KUBECONFIG=" + l.Cluster.AdminKubeconfig()}, Stdin: res.Stdout},
			l.Cluster.Kubectl(), "apply", "-f", "-")
	}
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("apply the roles: %s", res)
	}
	return err
}

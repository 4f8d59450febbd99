package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl is the path of the upstream kubectl, of the cluster's version.
func (c *Cluster) Kubectl() string { return filepath.Join(c.state.Bin, "kubectl") }

// KubectlEnv keeps a kubectl that runs with it inside the cluster's folder: its
// discovery cache is there, and no preferences of the user count. Append it to
// a command's environment.
func (c *Cluster) KubectlEnv() []string {
	return []string{"KUBECACHEDIR=" + filepath.Join(c.dir, "kubectl-cache"), "KUBERC=off"}
}

// Admin runs kubectl as the cluster's admin with stdin ("" for none) and
// returns its standard output. The error holds what it said.
func (c *Cluster) Admin(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Kubectl(), append([]string{"--kubeconfig=" + c.AdminKubeconfig()}, args...)...)
	cmd.Env = append(os.Environ(), c.KubectlEnv()...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Apply has the admin apply manifests (YAML).
func (c *Cluster) Apply(ctx context.Context, manifests string) error {
	_, err := c.Admin(ctx, manifests, "apply", "-f", "-")
	return err
}

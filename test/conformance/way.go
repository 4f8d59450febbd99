//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// The two ways to authenticate that are compared.
const (
	keyFile = "key file"
	token   = "token"
)

// group may do everything in the cluster.
const group = "conformance"

const groupRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: conformance}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: conformance}]
`

// way is one of the ways, on a control plane of its own. The user and the rights
// are the same both ways.
type way struct {
	name string
	// dir is the way's own folder.
	dir     string
	cluster *controlplane.Cluster
	// kubeconfig has the one context that a suite uses.
	kubeconfig string
	// env is added to the environment of a suite's programs.
	env []string

	lab *lab.Lab // nil with a key file
}

// openWay starts a control plane in dir, which must be empty and stay short, and
// makes the user. kubehsm is the program, from [lab.Build].
func openWay(ctx context.Context, name, dir, kubehsm string, o controlplane.Options) (w *way, err error) {
	w = &way{name: name, dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	if w.cluster, err = controlplane.Start(ctx, filepath.Join(dir, "c"), o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("prepare the way by %s: %w", name, err), w.close(context.WithoutCancel(ctx)))
		}
	}()
	if err := w.cluster.Apply(ctx, groupRights); err != nil {
		return w, err
	}
	if name == keyFile {
		return w, w.cluster.WriteKubeconfig(w.kubeconfig, controlplane.ContextName, lab.User, group)
	}
	return w, w.enroll(ctx, kubehsm)
}

// enroll puts the user's key on a token, and unlocks that.
func (w *way) enroll(ctx context.Context, kubehsm string) error {
	if err := lab.Rights(ctx, w.cluster); err != nil {
		return err
	}
	home := filepath.Join(w.dir, "l")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	var err error
	if w.lab, err = lab.New(home, lab.Options{Binary: kubehsm, Cluster: w.cluster}); err != nil {
		return err
	}
	if err := w.lab.Enroll(ctx, group); err != nil {
		return err
	}
	config, err := lab.Succeeded(w.lab.Kubectl(ctx, "config", "view", "--raw", "--minify", "--flatten"))
	if err != nil {
		return err
	}
	w.env = []string{"KUBEHSM_HOME=" + w.lab.Home}
	if err := os.WriteFile(w.kubeconfig, []byte(config), 0o600); err != nil {
		return err
	}
	// The suites are on a cluster where nobody has enrolled: the controller manager
	// removes an approved request an hour later.
	if _, err := w.cluster.Admin(ctx, "", "delete", "certificatesigningrequests", "--all"); err != nil {
		return err
	}
	// The agent that a suite finds has signed nothing.
	if _, err := lab.Succeeded(w.lab.Kubehsm(ctx, "agent", "stop")); err != nil {
		return err
	}
	return w.lab.Unlock(ctx)
}

// count adds to o what the token's runs took since the way was opened: signatures,
// and requests that the bridge passed on.
func (w *way) count(ctx context.Context, o *outcome) error {
	if w.lab == nil {
		return nil
	}
	s, err := w.lab.Status(ctx)
	if err != nil {
		return err
	}
	o.Signatures = int(s.Signatures)
	for _, u := range s.Upstreams {
		o.Requests += int(u.Requests)
	}
	return nil
}

// plugin is the program that kubectl runs for a credential.
func (w *way) plugin() string {
	if w.lab == nil {
		return ""
	}
	return w.lab.Plugin
}

// close ends the agent and the control plane.
func (w *way) close(ctx context.Context) error {
	var errs []error
	if w.lab != nil {
		errs = append(errs, w.lab.Close(ctx))
	}
	return errors.Join(append(errs, w.cluster.Stop(ctx))...)
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/stamp"
)

// upstream is where the suites come from.
type upstream struct {
	// kubernetes is the folder of k8s.io/kubernetes in the module cache.
	kubernetes string
	version    string
	// convert and e2e are the programs kubectl-convert and e2e.test; scheduler and
	// kwok run simulated nodes.
	convert, e2e, scheduler, kwok string
}

// findUpstream looks for the module that the control plane is built from, which
// must be there.
func findUpstream(ctx context.Context) (*upstream, error) {
	root, err := controlplane.Checkout()
	if err != nil {
		return nil, err
	}
	module, err := goOutput(ctx, filepath.Join(root, "test", "cluster"), "list", "-m", "-f", "{{.Dir}} {{.Version}}",
		"k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	kubernetes, version, _ := strings.Cut(module, " ")
	if kubernetes == "" {
		return nil, fmt.Errorf("k8s.io/kubernetes is not in the module cache: run `make cluster`")
	}
	bin := filepath.Join(root, ".cache", "conformance")
	return &upstream{kubernetes: kubernetes, version: version, convert: filepath.Join(bin, "kubectl-convert"),
		e2e: filepath.Join(bin, "e2e.test"), scheduler: filepath.Join(bin, "kube-scheduler"),
		kwok: filepath.Join(bin, "kwok")}, nil
}

// build makes the suites' own programs in the checkout's .cache/conformance, only those
// that are named if any is. Go's build cache makes that a matter of seconds, but for the
// first time.
func (u *upstream) build(ctx context.Context, only ...string) error {
	root, err := controlplane.Checkout()
	if err != nil {
		return err
	}
	for _, p := range []struct {
		module string
		args   []string
	}{
		{"test/cluster", []string{"build", "-o", u.convert, "k8s.io/kubernetes/cmd/kubectl-convert"}},
		// Vetting it would go through all of Kubernetes.
		{"test/conformance/suite", []string{"test", "-c", "-vet=off", "-o", u.e2e, "k8s.io/kubernetes/test/e2e"}},
		{"test/conformance/suite", []string{"build", "-o", u.scheduler, "k8s.io/kubernetes/cmd/kube-scheduler"}},
		{"test/conformance/nodes", []string{"build", "-o", u.kwok, "sigs.k8s.io/kwok/cmd/kwok"}},
	} {
		if only != nil && !slices.Contains(only, p.args[len(p.args)-2]) {
			continue
		}
		dir := filepath.Join(root, p.module)
		var version []string
		if p.args[2] != u.kwok {
			if version, err = stamp.Flags(ctx, dir, "k8s.io/kubernetes"); err != nil {
				return err
			}
		}
		last := len(p.args) - 1
		args := append(p.args[:last:last], "-trimpath", "-buildvcs=false", "-ldflags=-s -w "+strings.Join(version, " "),
			p.args[last])
		if _, err := goOutput(ctx, dir, args...); err != nil {
			return err
		}
	}
	return nil
}

// goOutput runs the go command in dir.
func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

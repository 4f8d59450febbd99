//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/stamp"
)

// upstream is where the suite comes from.
type upstream struct {
	// kubernetes is the folder of k8s.io/kubernetes in the module cache.
	kubernetes string
	// convert is the program kubectl-convert.
	convert string
}

// findUpstream looks for the module that the control plane is built from, which
// must be there.
func findUpstream(ctx context.Context) (*upstream, error) {
	root, err := controlplane.Checkout()
	if err != nil {
		return nil, err
	}
	kubernetes, err := goOutput(ctx, filepath.Join(root, "test", "cluster"), "list", "-m", "-f", "{{.Dir}}",
		"k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	if kubernetes == "" {
		return nil, fmt.Errorf("k8s.io/kubernetes is not in the module cache: run `make cluster`")
	}
	bin := filepath.Join(root, ".cache", "conformance")
	return &upstream{kubernetes: kubernetes, convert: filepath.Join(bin, "kubectl-convert")}, nil
}

// build makes the program that the suite needs beside kubectl. Go's build cache makes that a matter of seconds, but
// for the first time.
func (u *upstream) build(ctx context.Context) error {
	root, err := controlplane.Checkout()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "test", "cluster")
	version, err := stamp.Flags(ctx, dir, "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	_, err = goOutput(ctx, dir, "build", "-o", u.convert, "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w "+strings.Join(version, " "), "k8s.io/kubernetes/cmd/kubectl-convert")
	return err
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

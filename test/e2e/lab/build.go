//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/execcredential"
	"github.com/kubehsm/kubehsm/test/controlplane"
)

// Build builds kubehsm and kubehsm-credential of this checkout into dir, as a release is built,
// and returns kubehsm's path.
func Build(ctx context.Context, dir string) (string, error) {
	checkout, err := controlplane.Checkout()
	if err != nil {
		return "", err
	}
	if _, err := BuildStatic(ctx, dir, execcredential.Program, checkout, "./plugin/"+execcredential.Program); err != nil {
		return "", err
	}
	return BuildPackage(ctx, dir, "kubehsm", checkout, ".")
}

// BuildPackage builds a main package of the module at root into dir/name; flags
// are the linker's.
func BuildPackage(ctx context.Context, dir, name, root, pkg string, flags ...string) (string, error) {
	return build(ctx, "1", dir, name, root, pkg, flags...)
}

// BuildStatic is [BuildPackage] without cgo.
func BuildStatic(ctx context.Context, dir, name, root, pkg string) (string, error) {
	return build(ctx, "0", dir, name, root, pkg, "-s -w")
}

func build(ctx context.Context, cgo, dir, name, root, pkg string, flags ...string) (string, error) {
	out := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath",
		"-ldflags="+strings.Join(flags, " "), "-o", out, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return out, nil
}

//go:build linux

package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kubehsm/kubehsm/test/controlplane"
)

// Build builds the program of this checkout into dir, as a release is built,
// and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	checkout, err := controlplane.Checkout()
	if err != nil {
		return "", err
	}
	return BuildPackage(ctx, dir, "kubehsm", checkout, ".")
}

// BuildPackage builds a main package of the module at root into dir/name; flags
// are the linker's.
func BuildPackage(ctx context.Context, dir, name, root, pkg string, flags ...string) (string, error) {
	out := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-tags=grpcnotrace",
		"-ldflags="+strings.Join(flags, " "), "-o", out, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return out, nil
}

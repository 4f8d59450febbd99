// Package stamp has programs that are built from Kubernetes' modules say which
// version of Kubernetes they are, as upstream's release build does.
package stamp

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Flags are the linker's for programs of the Go module in dir: they say the
// version that it has of the module k8s, k8s.io/kubernetes or one published from
// it. The commit is left out: a module has none.
func Flags(ctx context.Context, dir, k8s string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", k8s)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m %s: %w\n%s", k8s, err, strings.TrimSpace(stderr.String()))
	}
	version, err := Version(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k8s, err)
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for name, value := range map[string]string{
			"gitVersion": version, "gitMajor": parts[0], "gitMinor": parts[1], "gitCommit": "",
		} {
			flags = append(flags, fmt.Sprintf("-X=%s.%s=%s", pkg, name, value))
		}
	}
	slices.Sort(flags)
	return flags, nil
}

// Version is the version of Kubernetes that a module's is of: what is published
// from v1.37.1 has v0.37.1.
func Version(module string) (string, error) {
	major, rest, _ := strings.Cut(module, ".")
	if major != "v0" && major != "v1" || strings.Count(rest, ".") < 1 {
		return "", fmt.Errorf("version %q is neither v0.X.Y nor v1.X.Y", module)
	}
	return "v1." + rest, nil
}

package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildsWithoutCgo: all but the test programs builds for every platform that we speak of
// without a C compiler; a driver that a build lacks says so itself.
func TestBuildsWithoutCgo(t *testing.T) {
	for _, platform := range []string{"linux/amd64", "windows/amd64", "darwin/arm64"} {
		t.Run(platform, func(t *testing.T) {
			system, arch, _ := strings.Cut(platform, "/")
			// Several packages: compiled and not linked.
			cmd := exec.Command("go", "build", ".", "./hsm/...", "./csr/...", "./kubeconfig/...", "./plugin/...", "./ui/...")
			cmd.Dir = filepath.Join("..", "..")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("go build: %v\n%s", err, out)
			}
		})
	}
}

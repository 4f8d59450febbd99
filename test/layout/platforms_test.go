//go:build platforms

package layout

func init() {
	platforms = append(platforms, "windows/amd64", "darwin/arm64")
	withoutCgo = []string{".", "./hsm/...", "./csr/...", "./kubeconfig/...", "./plugin/...", "./ui/..."}
}

//go:build linux

// Package kit is what tests of the external signer share: the programs, and a
// kubeconfig for them.
package kit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/stamp"
)

// Programs are kubehsm and a kubectl with the auth provider, as Main builds them.
type Programs struct{ Kubehsm, Kubectl string }

// Main builds the programs and runs the tests, see [controlplane.Main].
func Main(m *testing.M, p *Programs) int { return controlplane.Main(built{m, p}) }

type built struct {
	*testing.M
	programs *Programs
}

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "kubehsm-signer-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = b.programs.build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.M.Run()
}

func (p *Programs) build(dir string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	if p.Kubehsm, err = lab.Build(ctx, dir); err != nil {
		return err
	}
	p.Kubectl, err = BuildKubectl(ctx, dir)
	return err
}

// BuildKubectl builds the kubectl with the auth provider, in its module of its own, into dir.
func BuildKubectl(ctx context.Context, dir string) (string, error) {
	root, err := controlplane.Checkout()
	if err != nil {
		return "", err
	}
	const name = "kubectl-externalsigner"
	source := filepath.Join(root, "test", name)
	flags, err := stamp.Flags(ctx, source, "k8s.io/kubectl")
	if err != nil {
		return "", err
	}
	return lab.BuildPackage(ctx, dir, name, source, ".", flags...)
}

// Configure writes the lab's kubeconfig, whose user is the provider's.
func Configure(l *lab.Lab, config map[string]string) error {
	ca, err := os.ReadFile(l.Cluster.CAFile())
	if err != nil {
		return err
	}
	c := api.NewConfig()
	c.Clusters["c"] = &api.Cluster{Server: l.Cluster.Server(), CertificateAuthorityData: ca}
	c.AuthInfos["u"] = &api.AuthInfo{AuthProvider: &api.AuthProviderConfig{Name: "externalSigner", Config: config}}
	c.Contexts["x"] = &api.Context{Cluster: "c", AuthInfo: "u", Namespace: "default"}
	c.CurrentContext = "x"
	return clientcmd.WriteToFile(*c, l.Kubeconfig)
}

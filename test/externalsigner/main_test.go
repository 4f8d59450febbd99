//go:build linux

package externalsigner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// programs are what the tests run, built by TestMain.
var programs struct{ kubehsm, kubectl string }

func TestMain(m *testing.M) { os.Exit(controlplane.Main(built{m})) }

type built struct{ *testing.M }

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "kubehsm-signer-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.M.Run()
}

// build makes kubehsm and, in its module of its own, the kubectl.
func build(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	root, err := controlplane.Checkout()
	if err != nil {
		return err
	}
	var errs [2]error
	programs.kubehsm, errs[0] = lab.Build(ctx, dir)
	const name = "kubectl-externalsigner"
	programs.kubectl, errs[1] = lab.BuildPackage(ctx, dir, name, filepath.Join(root, "test", name), ".")
	return errors.Join(errs[:]...)
}

//go:build linux

package scenarios

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// suite is what all tests share, made by TestMain.
var suite struct {
	binary string
	rights sync.Map // *controlplane.Cluster → func() error
}

func TestMain(m *testing.M) { os.Exit(controlplane.Main(built{m})) }

// built runs the tests with the program built.
type built struct{ *testing.M }

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "kubehsm-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		defer func() { _ = os.RemoveAll(killed.dir) }() // in the folder for temporary files
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		suite.binary, err = lab.Build(ctx, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.M.Run()
}

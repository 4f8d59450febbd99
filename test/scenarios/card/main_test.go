//go:build linux && cgo

package card

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// binary is the program, built by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(vcard.Main(inside{m})) }

// inside is what runs in the namespaces: the control plane must, too, as they
// have a network of their own.
type inside struct{ m *testing.M }

func (i inside) Run() int { return controlplane.Main(built(i)) }

// built runs the tests with the program built.
type built struct{ m *testing.M }

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "kubehsm-card-")
	if err == nil {
		defer os.RemoveAll(dir)
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
		defer cancel()
		binary, err = lab.Build(ctx, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.m.Run()
}

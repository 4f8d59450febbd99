//go:build linux && cgo

package card

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(inside{m})) }

// inside is what runs in the namespaces: the control plane must, too, as they
// have a network of their own.
type inside struct{ m *testing.M }

func (i inside) Run() int { return lab.Main(i.m) }

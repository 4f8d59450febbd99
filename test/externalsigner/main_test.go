//go:build linux

package externalsigner

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/externalsigner/kit"
)

// programs are what the tests run, built by TestMain.
var programs kit.Programs

func TestMain(m *testing.M) { os.Exit(kit.Main(m, &programs)) }

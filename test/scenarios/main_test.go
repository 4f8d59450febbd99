//go:build linux

package scenarios

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

func TestMain(m *testing.M) {
	code := lab.Main(m)
	_ = os.RemoveAll(killed.dir) // in the folder for temporary files
	os.Exit(code)
}

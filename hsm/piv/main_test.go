//go:build cgo || windows

package piv

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/vcard"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(m)) }

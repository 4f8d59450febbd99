package vcard_test

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/vcard"
)

func TestMain(m *testing.M) { os.Exit(vcard.Main(m)) }

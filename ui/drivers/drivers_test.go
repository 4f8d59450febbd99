package drivers

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	hinting "github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/home"
)

// TestOnlyModules: a smart card that the configuration leaves out is told so,
// with the file, wherever it is named or nothing else is found.
func TestOnlyModules(t *testing.T) {
	dirs := home.Dirs{Home: t.TempDir(), Config: t.TempDir(), Run: t.TempDir()}
	d := New(Options{Dirs: dirs, OnlyModules: true})
	defer d.Close()
	told := func(err error) {
		t.Helper()
		if !errors.Is(err, hsm.ErrNoToken) || errors.Is(err, hsm.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		if !strings.Contains(err.Error(), "onlyModules: true") || !strings.Contains(err.Error(), dirs.ConfigFile()) ||
			hinting.Of(err) == "" {
			t.Errorf("%v, hint %q", err, hinting.Of(err))
		}
	}
	_, err := d.Open(t.Context(), hsm.URI{Scheme: hsm.SchemePIV, Serial: "1234567"})
	told(err)
	l, err := d.List(t.Context())
	if err != nil || len(l.Tokens) != 0 || len(l.Problems) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	told(l.Problems[0].Err)
}

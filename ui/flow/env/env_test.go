package env

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestPlugin: entries name kubehsm-credential only where it would execute the kubehsm that writes them.
func TestPlugin(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // kubehsm-credential is not built for Windows
	}
	dir := t.TempDir()
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"both", "alone", "links", "other"} {
		check(os.Mkdir(at(folder), 0o700))
	}
	for _, file := range [][]string{{"both", "kubehsm"}, {"both", "kubehsm-credential"}, {"alone", "kubehsm"},
		{"other", "kubehsm"}} {
		check(os.WriteFile(at(file...), []byte(file[0]), 0o700))
	}
	check(os.Symlink(at("both", "kubehsm"), at("links", "kubectl-hsm")))
	check(os.Symlink(at("both", "kubehsm-credential"), at("links", "kubehsm-credential")))
	check(os.Symlink(at("both", "kubehsm-credential"), at("other", "kubehsm-credential")))
	check(os.Link(at("both", "kubehsm"), at("both", "kubectl-hsm")))
	for executable, want := range map[string]string{
		at("both", "kubehsm"):      at("both", "kubehsm-credential"),
		at("both", "kubectl-hsm"):  at("both", "kubehsm-credential"),
		at("links", "kubectl-hsm"): at("links", "kubehsm-credential"),
		at("alone", "kubehsm"):     at("alone", "kubehsm"),
		at("other", "kubehsm"):     at("other", "kubehsm"), // another kubehsm would be executed
	} {
		if got := (&Env{Executable: executable}).Plugin(); got != want {
			t.Errorf("%s: %s, want %s", executable, got, want)
		}
	}
}

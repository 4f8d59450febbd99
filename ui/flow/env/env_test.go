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

// TestNamed: entries name the link by which a package manager has the program found, and not the folder of one
// version; a program whose own folder is on the PATH needs no link.
func TestNamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // links need a right that most people lack
	}
	dir := t.TempDir()
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"store/v1", "krew", "brew", "other"} {
		check(os.MkdirAll(at(folder), 0o700))
	}
	for _, file := range []string{"store/v1/kubehsm", "store/v1/kubehsm-credential", "other/kubehsm"} {
		check(os.WriteFile(at(file), []byte(file), 0o700))
	}
	check(os.Symlink(at("store", "v1", "kubehsm"), at("krew", "kubectl-hsm"))) // krew links one file
	check(os.Symlink(at("store", "v1", "kubehsm"), at("brew", "kubehsm")))
	check(os.Symlink(at("store", "v1", "kubehsm-credential"), at("brew", "kubehsm-credential")))
	e := &Env{Executable: at("store", "v1", "kubehsm")}
	for path, want := range map[string][2]string{
		"":                                {at("store", "v1", "kubehsm"), at("store", "v1", "kubehsm-credential")},
		at("other"):                       {at("store", "v1", "kubehsm"), at("store", "v1", "kubehsm-credential")},
		at("krew"):                        {at("krew", "kubectl-hsm"), at("krew", "kubectl-hsm")},
		at("other") + ":" + at("krew"):    {at("krew", "kubectl-hsm"), at("krew", "kubectl-hsm")},
		at("brew"):                        {at("brew", "kubehsm"), at("brew", "kubehsm-credential")},
		at("krew") + ":" + at("store/v1"): {at("store", "v1", "kubehsm"), at("store", "v1", "kubehsm-credential")},
	} {
		t.Setenv("PATH", path)
		if named, plugin := e.Named(), e.Plugin(); named != want[0] || plugin != want[1] {
			t.Errorf("PATH %s: %s and %s, want %s", path, named, plugin, want)
		}
	}
}

package p11kit

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// tree writes files (name: content) into a new folder and returns it. Content
// "-> NAME" makes a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(filepath.Join(root, target), path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func placesIn(root string) Places {
	at := func(name string) string { return filepath.Join(root, name) }
	return Places{
		systemConf: at("etc/pkcs11.conf"), userConf: at("home/pkcs11.conf"),
		system: []string{at("share"), at("etc/modules")}, user: at("home/modules"),
		libraries: []string{at("lib")}, wellKnown: slices.Values([]string{at("known/a.so"), at("known/b.so"),
			at("known/none.so")}),
	}
}

func TestDiscover(t *testing.T) {
	base := map[string]string{"lib/a.so": "", "lib/b.so": "", "lib/c.so": "", "known/a.so": "-> lib/a.so"}
	for _, c := range []struct {
		name     string
		files    map[string]string
		want     []string // name=path below the root
		problems int
	}{
		{"nothing", nil, []string{"=known/a.so"}, 0},
		{"relative and absolute, well-known only once", map[string]string{
			"share/one.module": "# comment\n\nmodule: a.so\n", "share/two.module": "module: ROOT/lib/b.so",
		}, []string{"one=lib/a.so", "two=lib/b.so"}, 0},
		{"same file by two names", map[string]string{
			"share/one.module": "module: a.so", "share/two.module": "module: ROOT/known/a.so",
		}, []string{"one=lib/a.so"}, 0},
		{"priority", map[string]string{
			"share/one.module": "module: a.so", "share/two.module": "module: b.so\npriority: 5", "share/zz.module": "module: c.so\npriority: -1",
		}, []string{"two=lib/b.so", "one=lib/a.so", "zz=lib/c.so"}, 0},
		{"user over system over package", map[string]string{
			"share/one.module": "module: a.so\npriority: 9", "etc/modules/one.module": "module: b.so", "home/modules/one.module": "module: c.so",
			"share/two.module": "module: a.so",
		}, []string{"one=lib/c.so", "two=lib/a.so"}, 0},
		{"user-config none", map[string]string{
			"etc/pkcs11.conf": "user-config: none", "share/one.module": "module: a.so", "home/modules/two.module": "module: b.so",
		}, []string{"one=lib/a.so"}, 0},
		{"user-config only", map[string]string{
			"home/pkcs11.conf": "user-config: only", "share/one.module": "module: c.so", "home/modules/two.module": "module: b.so",
		}, []string{"two=lib/b.so", "=known/a.so"}, 0},
		{"turned off also where well known", map[string]string{
			"share/one.module": "module: a.so\ndisable-in: firefox, kubehsm",
		}, nil, 0},
		{"for others only", map[string]string{
			"share/one.module": "module: a.so\nenable-in: firefox", "share/two.module": "module: b.so\nenable-in: firefox, kubehsm\ndisable-in: kubehsm",
		}, []string{"two=lib/b.so"}, 0},
		{"trust, proxy and remote modules", map[string]string{
			"share/one.module": "module: a.so\ntrust-policy: yes", "share/two.module": "module: p11-kit-trust.so",
			"share/three.module": "module: p11-kit-proxy.so", "share/four.module": "remote: |ssh host p11-kit remote", "share/note.txt": "module: c.so",
		}, nil, 0},
		{"no folder where one is looked for", map[string]string{
			"share/one.module": "module: a.so", "home": "no folder", "etc/modules": "no folder",
		}, []string{"one=lib/a.so"}, 0},
		{"malformed", map[string]string{
			"share/one.module": "module: a.so\nrubbish", "share/two.module": "module: b.so",
		}, []string{"one=lib/a.so", "two=lib/b.so"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			for k, v := range base {
				files[k] = v
			}
			for k, v := range c.files {
				files[k] = v
			}
			root := tree(t, files)
			for name, content := range c.files {
				if strings.Contains(content, "ROOT") {
					if err := os.WriteFile(filepath.Join(root, name), []byte(strings.ReplaceAll(content, "ROOT", root)),
						0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			found, problems := placesIn(root).Discover()
			var got []string
			for _, m := range found {
				rel, err := filepath.Rel(root, m.Path)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, m.Name+"="+rel)
			}
			if !reflect.DeepEqual(got, c.want) || len(problems) != c.problems {
				t.Errorf("found %q (problems %v), want %q", got, problems, c.want)
			}
			for name := range base {
				path := filepath.Join(root, name)
				listed := slices.ContainsFunc(found, func(m Module) bool { return Real(m.Path) == Real(path) })
				if has := placesIn(root).Has(path); has != listed {
					t.Errorf("%s is listed: %t, but it has it: %t", name, listed, has)
				}
			}
			if placesIn(root).Has(filepath.Join(root, "known", "none.so")) {
				t.Error("it has what is not there")
			}
		})
	}
}

func FuzzReadConfig(f *testing.F) {
	f.Add("module: a.so\n# c\npriority: 1\n")
	f.Add(":\n")
	f.Fuzz(func(t *testing.T, s string) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		values, _ := readConfig(path)
		for k, v := range values {
			if k == "" || k != strings.TrimSpace(k) || v != strings.TrimSpace(v) || strings.ContainsAny(k+v, "\n") {
				t.Errorf("read %q: %q", k, v)
			}
		}
	})
}

//go:build !windows

package p11kit

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/test/must"
)

// tree writes files (name: content) into a new folder and returns it. Content
// "-> NAME" makes a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(filepath.Join(root, target), path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		must.OK(t, err)
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
		{"a user cannot undo the system's none", map[string]string{
			"etc/pkcs11.conf": "user-config: none", "home/pkcs11.conf": "user-config: only", "share/one.module": "module: a.so",
			"home/modules/two.module": "module: b.so",
		}, []string{"one=lib/a.so"}, 0},
		{"a mode that is none", map[string]string{
			"etc/pkcs11.conf": "user-config: maybe", "share/one.module": "module: a.so",
			"home/modules/two.module": "module: b.so",
		}, []string{"one=lib/a.so"}, 1},
		{"turned off also where well known", map[string]string{
			"share/one.module": "module: a.so\ndisable-in: firefox, kubehsm",
		}, nil, 0},
		{"for others only", map[string]string{
			"share/one.module": "module: a.so\nenable-in: firefox", "share/two.module": "module: b.so\nenable-in: firefox, kubehsm\ndisable-in: kubehsm",
		}, []string{"two=lib/b.so"}, 0},
		{"trust and proxy modules", map[string]string{
			"share/one.module": "module: a.so\ntrust-policy: yes", "share/two.module": "module: p11-kit-trust.so",
			"share/three.module": "module: p11-kit-proxy.so", "share/note.txt": "module: c.so",
		}, []string{"one=lib/a.so"}, 0},
		{"remote modules", map[string]string{
			"share/one.module":        "remote: |ssh host p11-kit remote",
			"etc/modules/two.module":  "remote: unix:path=/run/x\nmodule: c.so",
			"home/modules/two.module": "priority: 3", "share/three.module": "remote: vsock:cid=2;port=9",
			"share/four.module": "remote: |no\ndisable-in: kubehsm",
		}, []string{"two=etc/modules/two.module", "one=share/one.module", "three=share/three.module", "=known/a.so"}, 0},
		{"remote modules that p11-kit refuses", map[string]string{
			"share/one.module": "remote: ssh host", "share/two.module": "remote: unix:path=x",
		}, []string{"=known/a.so"}, 2},
		{"one library with two settings", map[string]string{
			"share/one.module":   "module: a.so\nx-init-reserved: configdir=/x",
			"share/two.module":   "module: a.so\nx-init-reserved: configdir=/y",
			"share/three.module": "module: b.so\nx-init-reserved: z", "share/tree.module": "module: b.so\nx-init-reserved: z",
		}, []string{"one=lib/a.so", "three=lib/b.so"}, 1},
		{"options that change nothing here", map[string]string{
			"share/one.module": "module: a.so\ncritical: yes\nmanaged: no\nlog-calls: yes\ntrust-policy: no",
		}, []string{"one=lib/a.so"}, 0},
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
					must.OK(t, os.WriteFile(filepath.Join(root, name), []byte(strings.ReplaceAll(content, "ROOT", root)),
						0o600))
				}
			}
			found, problems := placesIn(root).Discover()
			var got []string
			for _, m := range found {
				rel, err := filepath.Rel(root, m.Path)
				must.OK(t, err)
				got = append(got, m.Name+"="+rel)
			}
			if !reflect.DeepEqual(got, c.want) || len(problems) != c.problems {
				t.Errorf("found %q (problems %v), want %q", got, problems, c.want)
			}
			for name := range base {
				path := filepath.Join(root, name)
				listed := slices.ContainsFunc(found, func(m Module) bool { return Real(m.Path) == Real(path) })
				if m, has := placesIn(root).Find(path); has != listed {
					t.Errorf("%s is listed: %t, but it is found: %t, %+v", name, listed, has, m)
				}
			}
			for _, m := range found {
				if same, ok := placesIn(root).Find(m.Path); !ok || same != m {
					t.Errorf("%+v is found as %+v, %t", m, same, ok)
				}
			}
			if m, ok := placesIn(root).Find(filepath.Join(root, "known", "none.so")); ok {
				t.Errorf("what is not there is found: %+v", m)
			}
		})
	}
}

// TestSettings: what a module is given with it is read from the file that is stronger.
func TestSettings(t *testing.T) {
	root := tree(t, map[string]string{
		"lib/a.so": "", "share/one.module": "module: a.so\nx-init-reserved: configdir='sql:/x' flags=readOnly",
		"share/two.module": "remote: |weaker", "home/modules/two.module": "remote: |stronger --with 'words'",
	})
	found, problems := placesIn(root).Discover()
	want := []Module{
		{Name: "one", Path: filepath.Join(root, "lib/a.so"), Reserved: "configdir='sql:/x' flags=readOnly"},
		{Name: "two", Path: filepath.Join(root, "home/modules/two.module"), Remote: "|stronger --with 'words'"},
	}
	for i := range want {
		want[i].Real = Real(want[i].Path)
	}
	if !slices.Equal(found, want) || len(problems) > 0 {
		t.Errorf("%+v, %v", found, problems)
	}
}

// TestNoUserConfiguration: what p11-kit does not read for this user is not read here, and
// that it is left out is said.
func TestNoUserConfiguration(t *testing.T) {
	root := tree(t, map[string]string{
		"lib/a.so": "", "share/one.module": "module: a.so", "home/modules/two.module": "module: b.so",
		"home/pkcs11.conf": "user-config: only",
	})
	p := placesIn(root)
	p.noUser = "the moon is full"
	found, problems := p.Discover()
	if len(found) != 1 || found[0].Name != "one" || len(problems) != 1 || problems[0].Source != p.user ||
		!strings.Contains(problems[0].Err.Error(), "the moon is full") || hint.Of(problems[0].Err) == "" {
		t.Errorf("%+v, %v", found, problems)
	}
}

// TestClient: p11-kit's client is one of the well-known modules where there is a server
// for it, and one that is configured is always used.
func TestClient(t *testing.T) {
	t.Setenv(ServerAddress, "")
	root := tree(t, map[string]string{"lib/p11-kit-client.so": ""})
	p := placesIn(root)
	p.server = filepath.Join(root, "server")
	p.wellKnown = slices.Values([]string{filepath.Join(root, "lib/p11-kit-client.so")})
	found := func(want int) {
		t.Helper()
		all, problems := p.Discover()
		_, ok := p.Find(filepath.Join(root, "lib/p11-kit-client.so"))
		if len(all) != want || ok != (want == 1) || len(problems) > 0 {
			t.Errorf("%+v, %t, %v", all, ok, problems)
		}
	}
	found(0)
	l, err := net.Listen("unix", p.server)
	must.OK(t, err)
	found(1)
	address := p.Server()
	if err := Unreachable(address); address != "unix:path="+p.server || err != nil {
		t.Errorf("%s: %v", address, err)
	}
	must.OK(t, l.Close())
	found(0)
	for _, address := range []string{address, strings.ReplaceAll(address, "server", "%73erver") + ";pid=1"} {
		err := Unreachable(address)
		if !errors.Is(err, hsm.ErrModule) || !strings.Contains(err.Error(), p.server) || hint.Of(err) == "" {
			t.Errorf("%s: %v", address, err)
		}
	}
	t.Setenv(ServerAddress, "|ssh host")
	found(1)
	if err := Unreachable(p.Server()); err != nil || p.Server() != "|ssh host" {
		t.Errorf("%s: %v", p.Server(), err)
	}
	t.Setenv(ServerAddress, "")
	must.OK(t, os.WriteFile(filepath.Join(root, "etc.module"),
		[]byte("module: "+filepath.Join(root, "lib/p11-kit-client.so")), 0o600))
	p.system = []string{root}
	found(1)
}

func FuzzReadConfig(f *testing.F) {
	f.Add("module: a.so\n# c\npriority: 1\n")
	f.Add(":\n")
	f.Fuzz(func(t *testing.T, s string) {
		path := filepath.Join(t.TempDir(), "f")
		must.OK(t, os.WriteFile(path, []byte(s), 0o600))
		values, _ := readConfig(path)
		for k, v := range values {
			if k == "" || k != strings.TrimSpace(k) || v != strings.TrimSpace(v) || strings.ContainsAny(k+v, "\n") {
				t.Errorf("read %q: %q", k, v)
			}
		}
	})
}

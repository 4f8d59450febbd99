package p11kit

import (
	"cmp"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm"
)

// Module is a module that was found.
type Module struct {
	Name string // p11-kit's name, if it has one
	Path string
	Real string // identity of the module, see [Real]
}

// Real is the identity of the module at a path: two paths to one file are one module.
func Real(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// program is our name in p11-kit's enable-in and disable-in.
const program = "kubehsm"

// Places are where modules and p11-kit's configuration are looked for.
type Places struct {
	systemConf, userConf string           // pkcs11.conf files
	system               []string         // folders of *.module files, the stronger last
	user                 string           // the user's own such folder, stronger still
	libraries            []string         // where bare module names are looked up
	wellKnown            iter.Seq[string] // paths without p11-kit
	tpm                  string           // the TPM's device
}

// Standard are p11-kit's places and the usual ones of this system, see pkcs11.conf(5).
func Standard() Places {
	config := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = ""
		if home, err := os.UserHomeDir(); err == nil {
			config = filepath.Join(home, ".config")
		}
	}
	p := Places{
		systemConf: "/etc/pkcs11/pkcs11.conf",
		tpm:        "/dev/tpmrm0",
		system:     []string{"/usr/share/p11-kit/modules", "/etc/pkcs11/modules"},
	}
	if config != "" {
		p.userConf = filepath.Join(config, "pkcs11", "pkcs11.conf")
		p.user = filepath.Join(config, "pkcs11", "modules")
	}
	lib := []string{"/usr/lib64", "/usr/lib", "/usr/local/lib"}
	if t := triplet(runtime.GOARCH); t != "" {
		lib = append([]string{"/usr/lib/" + t}, lib...)
	}
	if runtime.GOOS == "darwin" {
		lib = []string{"/opt/homebrew/lib", "/usr/local/lib", "/Library/OpenSC/lib"}
		p.system = append(p.system, "/opt/homebrew/share/p11-kit/modules", "/opt/homebrew/etc/pkcs11/modules")
	}
	for _, dir := range lib {
		p.libraries = append(p.libraries, filepath.Join(dir, "pkcs11"))
	}
	p.wellKnown = wellKnown(lib)
	return p
}

// wellKnown are the usual paths of modules below the folders lib. There are many,
// and often nobody asks for them.
func wellKnown(lib []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, name := range []string{
			"softhsm/libsofthsm2", "pkcs11/libsofthsm2", "libykcs11", "pkcs11/libykcs11", "pkcs11/opensc-pkcs11",
			"opensc-pkcs11", "pkcs11/yubihsm_pkcs11", "pkcs11/libtpm2_pkcs11", "opencryptoki/libopencryptoki",
		} {
			for _, dir := range lib {
				for _, ext := range []string{".so", ".so.2", ".so.1", ".dylib"} {
					if !yield(dir + "/" + name + ext) {
						return
					}
				}
			}
		}
	}
}

// triplet is Debian's multiarch name of a GOARCH.
func triplet(arch string) string {
	return map[string]string{
		"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "arm": "arm-linux-gnueabihf", "386": "i386-linux-gnu",
		"ppc64le": "powerpc64le-linux-gnu", "s390x": "s390x-linux-gnu", "riscv64": "riscv64-linux-gnu",
	}[arch]
}

// Discover lists the modules of p11-kit's configuration, then those in
// well-known places, each real file once. What p11-kit's configuration turns
// off for us, or has for certificates only, is left out altogether.
func (p Places) Discover() ([]Module, []hsm.Problem) {
	configs, problems := p.configs()
	var found []Module
	seen := map[string]bool{}
	for _, c := range configs {
		m := Module{Name: c.name, Path: p.Resolve(c.values["module"])}
		if m.Path == "" {
			continue
		}
		if m.Real = Real(m.Path); seen[m.Real] {
			continue
		}
		seen[m.Real] = true
		if c.offers(m) {
			found = append(found, m)
		}
	}
	for path := range p.wellKnown {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if real := Real(path); !seen[real] {
			seen[real] = true
			found = append(found, Module{Path: path, Real: real})
		}
	}
	found = slices.DeleteFunc(found, func(m Module) bool { return p.idle(m.Real) })
	return found, problems
}

// Has tells whether [Places.Discover] lists the module at path, without a look
// at all the others: somebody waits for it with each signature.
func (p Places) Has(path string) bool {
	file, err := os.Stat(path)
	if err != nil || !file.Mode().IsRegular() {
		return false
	}
	same := func(at string) bool {
		info, err := os.Stat(at)
		return err == nil && os.SameFile(info, file)
	}
	configs, _ := p.configs()
	for _, c := range configs {
		if at := p.Resolve(c.values["module"]); at != "" && same(at) {
			m := Module{Path: at, Real: Real(at)}
			return c.offers(m) && !p.idle(m.Real)
		}
	}
	for at := range p.wellKnown {
		if at == path || same(at) {
			return !p.idle(Real(path))
		}
	}
	return false
}

// idle tells that the device of the module with that identity cannot be reached.
func (p Places) idle(real string) bool { return IsTPM(real) && !hasTPM(p.tpm) }

// Resolve makes a module's path absolute as p11-kit does.
func (p Places) Resolve(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	for _, dir := range p.libraries {
		if full := filepath.Join(dir, path); exists(full) {
			return full
		}
	}
	if len(p.libraries) > 0 { // reported as missing where p11-kit would look
		return filepath.Join(p.libraries[0], path)
	}
	return path
}

// configs reads the .module files, merged by name, the highest priority first.
func (p Places) configs() ([]config, []hsm.Problem) {
	var problems []hsm.Problem
	load := func(path string) map[string]string {
		values, err := readConfig(path)
		if err != nil && !absent(err) {
			problems = append(problems, hsm.Problem{Source: path, Err: err})
		}
		return values
	}
	dirs := p.system
	switch cmp.Or(load(p.userConf)["user-config"], load(p.systemConf)["user-config"], "merge") {
	case "merge":
		dirs = append(slices.Clone(dirs), p.user)
	case "only":
		dirs = []string{p.user}
	}
	merged := map[string]config{}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		files, err := os.ReadDir(dir)
		if err != nil && !absent(err) {
			problems = append(problems, hsm.Problem{Source: dir, Err: err})
		}
		for _, file := range files {
			name, ok := strings.CutSuffix(file.Name(), ".module")
			if !ok {
				continue
			}
			values := load(filepath.Join(dir, file.Name()))
			if weaker := merged[name].values; weaker != nil {
				maps.Copy(weaker, values)
			} else if values != nil {
				merged[name] = config{name: name, values: values}
			}
		}
	}
	all := make([]config, 0, len(merged))
	for _, c := range merged {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b config) int {
		return cmp.Or(cmp.Compare(b.priority(), a.priority()), cmp.Compare(a.name, b.name))
	})
	return all, problems
}

// IsProxy recognises p11-kit's proxy module, which shows the tokens of all
// configured modules once more. real is the module's identity.
func IsProxy(real string) bool {
	name := filepath.Base(real)
	return strings.HasPrefix(name, "p11-kit-proxy") || strings.HasPrefix(name, "libp11-kit")
}

// isTrust recognises p11-kit's module of trusted certificates.
func isTrust(path string) bool {
	return strings.HasPrefix(filepath.Base(path), "p11-kit-trust") || strings.HasPrefix(filepath.Base(path), "libnssckbi")
}

// absent is what p11-kit takes for no configuration: also one below what is no
// folder, such as a service's home /dev/null.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// config is one module's configuration.
type config struct {
	name   string
	values map[string]string
}

func (c config) priority() int {
	n, err := strconv.Atoi(c.values["priority"])
	if err != nil {
		return 0 // p11-kit's default
	}
	return n
}

// offers tells whether m is one for us.
func (c config) offers(m Module) bool { return c.wanted() && !isTrust(m.Path) && !IsProxy(m.Real) }

// wanted applies enable-in, disable-in and trust-policy.
func (c config) wanted() bool {
	in := func(key string) bool {
		return slices.Contains(strings.FieldsFunc(c.values[key], func(r rune) bool { return r == ',' || r == ' ' }), program)
	}
	switch {
	case c.values["trust-policy"] == "yes":
		return false
	case c.values["enable-in"] != "":
		return in("enable-in")
	}
	return !in("disable-in")
}

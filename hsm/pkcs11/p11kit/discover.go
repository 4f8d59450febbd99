package p11kit

import (
	"cmp"
	"errors"
	"fmt"
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
	"unicode"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Module is a module that was found.
type Module struct {
	Name string // p11-kit's name, if it has one
	// Path is that of the library or, of a remote module, that of the .module file which
	// says where it is.
	Path string
	Real string // identity of the module, see [Real]
	// Remote is the address of a module that runs elsewhere (remote:), "" of a library.
	Remote string
	// Reserved is what C_Initialize is given as pReserved (x-init-reserved), "" for nothing.
	Reserved string
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
	noUser               string           // why the user's own configuration does not count, "" if it does
	libraries            []string         // folders for bare module names
	wellKnown            iter.Seq[string] // paths without p11-kit
	tpm                  string           // the TPM's device
	server               string           // the socket of the user's p11-kit server
}

// Standard are p11-kit's places and the usual ones of this system, see pkcs11.conf(5).
func Standard() Places {
	if runtime.GOOS == "windows" {
		return programFiles(cmp.Or(os.Getenv("ProgramFiles"), `C:\Program Files`))
	}
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
		server:     serverSocket(),
	}
	switch { // p11-kit's order
	case os.Getuid() == 0:
		p.noUser = "p11-kit does not read root's own configuration"
	case os.Getenv("P11_KIT_NO_USER_CONFIG") != "":
		p.noUser = "P11_KIT_NO_USER_CONFIG is set"
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
			"pkcs11/p11-kit-client",
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

// programFiles are the places of Windows: where the makers' installers put their libraries
// below the folder dir, which takes an administrator to write to. The paths of other
// systems would lead to folders that every user may make in C:\.
func programFiles(dir string) Places {
	return Places{wellKnown: func(yield func(string) bool) {
		for _, path := range []string{
			`OpenSC Project\OpenSC\pkcs11\opensc-pkcs11.dll`, `Yubico\Yubico PIV Tool\bin\libykcs11.dll`,
			`Yubico\YubiHSM Shell\bin\pkcs11\yubihsm_pkcs11.dll`,
		} {
			if !yield(dir + `\` + path) {
				return
			}
		}
	}}
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
	seen := map[string]Module{}
	for _, c := range configs {
		m := p.module(c)
		if m.Path == "" {
			continue
		}
		if first, ok := seen[m.Real]; ok {
			if c.offers(m) && first.Reserved != m.Reserved {
				problems = append(problems, hsm.Problem{Source: m.Path, Err: hint.With(
					fmt.Errorf("%w: %s.module and %s.module name one library but differ in x-init-reserved",
						hsm.ErrModule, m.Name, first.Name), "remove one of the two files, or let it name another copy of the library")})
			}
			continue
		}
		seen[m.Real] = m
		if err := m.unusable(); err != nil {
			problems = append(problems, hsm.Problem{Source: m.Path, Err: err})
		} else if c.offers(m) && !p.idle(m.Real) {
			found = append(found, m)
		}
	}
	for path := range p.wellKnown {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		real := Real(path)
		if _, ok := seen[real]; !ok && !p.idle(real) && !p.alone(real) {
			seen[real] = Module{}
			found = append(found, Module{Path: path, Real: real})
		}
	}
	return found, problems
}

// Find returns the module at path as [Places.Discover] lists it, without a look at all
// the others: somebody waits for it with each signature.
func (p Places) Find(path string) (Module, bool) {
	file, err := os.Stat(path)
	if err != nil || !file.Mode().IsRegular() {
		return Module{}, false
	}
	same := func(at string) bool {
		info, err := os.Stat(at)
		return err == nil && os.SameFile(info, file)
	}
	configs, _ := p.configs()
	for _, c := range configs {
		if m := p.module(c); m.Path != "" && same(m.Path) {
			return m, m.unusable() == nil && c.offers(m) && !p.idle(m.Real)
		}
	}
	for at := range p.wellKnown {
		if at == path || same(at) {
			m := Module{Path: at, Real: Real(at)}
			return m, !p.idle(m.Real) && !p.alone(m.Real)
		}
	}
	return Module{}, false
}

// module is what c describes; its path is "" if that is nothing.
func (p Places) module(c config) Module {
	m := Module{Name: c.name, Path: p.Resolve(c.values["module"]), Remote: c.values["remote"],
		Reserved: c.values["x-init-reserved"]}
	if m.Remote != "" { // p11-kit prefers remote: to module:
		m.Path = c.remote
	}
	if m.Path != "" {
		m.Real = Real(m.Path)
	}
	return m
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
	mode := cmp.Or(load(p.systemConf)["user-config"], "merge")
	if mode != "none" && p.noUser == "" { // the system can forbid user settings
		mode = cmp.Or(load(p.userConf)["user-config"], mode)
	}
	switch {
	case mode == "none":
	case p.noUser != "":
		if files, err := filepath.Glob(filepath.Join(p.user, "*.module")); err == nil && len(files) > 0 {
			problems = append(problems, hsm.Problem{Source: p.user, Err: hint.With(
				fmt.Errorf("%w: the modules in this folder are ignored: %s", hsm.ErrModule, p.noUser),
				"put the .module files into /etc/pkcs11/modules, or list the libraries in config.yaml")})
		}
	case mode == "merge":
		dirs = append(slices.Clone(dirs), p.user)
	case mode == "only", mode == "override":
		dirs = []string{p.user}
	default:
		problems = append(problems, hsm.Problem{Source: p.systemConf,
			Err: fmt.Errorf("user-config must be none, merge or only, not %q", mode)})
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
			path := filepath.Join(dir, file.Name())
			values := load(path)
			if values == nil {
				continue
			}
			c := merged[name]
			if c.values == nil {
				c = config{name: name, values: map[string]string{}}
			}
			if values["remote"] != "" {
				c.remote = path
			}
			maps.Copy(c.values, values)
			merged[name] = c
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

// IsProxy recognizes p11-kit's proxy module, which shows the tokens of all
// configured modules once more. real is the module's identity.
func IsProxy(real string) bool {
	name := filepath.Base(real)
	return strings.HasPrefix(name, "p11-kit-proxy") || strings.HasPrefix(name, "libp11-kit")
}

// isTrust recognizes p11-kit's module of trusted certificates.
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
	remote string // the file that has remote:, if one has
}

func (c config) priority() int {
	n, err := strconv.Atoi(c.values["priority"])
	if err != nil {
		return 0 // p11-kit's default
	}
	return n
}

// offers tells whether m is one for us.
func (c config) offers(m Module) bool {
	return c.wanted() && (m.Remote != "" || !isTrust(m.Path) && !IsProxy(m.Real))
}

// wanted applies enable-in and disable-in. A module of trusted certificates may have keys
// too: trust-policy turns none off.
func (c config) wanted() bool {
	in := func(key string) bool {
		return slices.Contains(strings.FieldsFunc(c.values[key], func(r rune) bool { return r == ',' || unicode.IsSpace(r) }),
			program)
	}
	if c.values["enable-in"] != "" {
		return in("enable-in")
	}
	return !in("disable-in")
}
